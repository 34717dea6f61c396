package proxier_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/proxiertest"
)

// TestProxierEndsAtTheDesiredState lets changes arrive before, during and after the
// calls of a backend of which any may fail. Once all is quiet, what is in force is
// what a fresh start would make.
func TestProxierEndsAtTheDesiredState(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawScript(rt)
		var diff string
		synctest.Test(t, func(t *testing.T) { diff = s.play(t) })
		if diff != "" {
			rt.Fatal(diff)
		}
	})
}

// script is what happens in one run.
type script struct {
	feed     *proxier.Feed
	services map[types.NamespacedName]*corev1.Service
	slices   map[types.NamespacedName]*discoveryv1.EndpointSlice
	before   int    // how many events come before Run
	pauses   []int  // before each of the rest, in milliseconds
	during   []int  // how many come within the n-th call
	fails    []bool // whether the n-th call fails
	call     int

	mu     sync.Mutex // guards events, and is held while they happen
	events []func()
}

func drawScript(t *rapid.T) *script {
	s := &script{
		services: map[types.NamespacedName]*corev1.Service{},
		slices:   map[types.NamespacedName]*discoveryv1.EndpointSlice{},
		before:   rapid.IntRange(0, 10).Draw(t, "before"),
		pauses:   rapid.SliceOfN(rapid.IntRange(0, 50), 50, 50).Draw(t, "pauses"),
		during:   rapid.SliceOfN(rapid.IntRange(0, 3), 10, 10).Draw(t, "during"),
		fails:    rapid.SliceOfN(rapid.Bool(), 10, 10).Draw(t, "fails"),
	}
	for range rapid.IntRange(1, 50).Draw(t, "events") {
		s.events = append(s.events, s.event(t))
	}
	return s
}

// play returns how what is in force at the end differs from what should be.
func (s *script) play(t *testing.T) string {
	t.Helper()
	node := proxier.Node{Name: "node-a", Zone: "z1"}
	backend := proxiertest.NewBackend(t)
	p, err := proxier.New(backend, proxier.Config{Node: node})
	if err != nil {
		t.Fatal(err)
	}
	s.feed = p.Feed("objects")
	s.next(s.before)
	s.feed.Synced()
	backend.Fail(s.called)

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	for _, ms := range s.pauses {
		pass(time.Duration(ms) * time.Millisecond)
		s.next(1)
	}
	pass(5 * time.Minute)
	synctest.Wait()
	got, st := backend.State(), p.Status()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	want := proxiertest.Expect(node, slices.Collect(maps.Values(s.services)), slices.Collect(maps.Values(s.slices)))
	if diff := cmp.Diff(want, got, equateState); diff != "" {
		return "what is in force differs from a fresh start (-want +got):\n" + diff
	}
	if st.Failures != 0 || !st.QueuedSince.IsZero() {
		return fmt.Sprintf("Status() = %+v at rest", st)
	}
	return ""
}

// next makes the next n events happen.
func (s *script) next(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, len(s.events))
	events := s.events[:n]
	s.events = s.events[n:]
	for _, do := range events {
		do()
	}
}

// called is what happens within a call of the backend.
func (s *script) called(proxiertest.Call) error {
	n := s.call
	s.call++
	if n >= len(s.fails) {
		return nil
	}
	s.next(s.during[n])
	pass(30 * time.Millisecond)
	if s.fails[n] {
		return errors.New("no")
	}
	return nil
}

// event draws one change of one object.
func (s *script) event(t *rapid.T) func() {
	switch oneOf(t, "event", "set service", "set slice", "set slice", "delete service", "delete slice") {
	case "set service":
		svc := randomService(t)
		return func() {
			s.services[nameOf(svc)] = svc
			s.feed.SetService(svc)
		}
	case "set slice":
		es := randomSlice(t)
		return func() {
			s.slices[nameOf(es)] = es
			s.feed.SetEndpointSlice(es)
		}
	case "delete service":
		name := randomName(t, "svc")
		return func() {
			delete(s.services, name)
			s.feed.DeleteService(name)
		}
	default:
		name := randomName(t, "slice")
		return func() {
			delete(s.slices, name)
			s.feed.DeleteEndpointSlice(name)
		}
	}
}
