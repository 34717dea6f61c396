package proxier_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/proxiertest"
)

// rig is a running Proxier with a backend that notes when it was called.
type rig struct {
	*proxier.Proxier
	backend *proxiertest.Backend
	begin   time.Time

	mu     sync.Mutex // guards what follows
	at     []string   // "150ms Apply"
	rounds []proxier.Round
}

func newRig(t *testing.T, cfg proxier.Config) *rig {
	t.Helper()
	r := &rig{backend: proxiertest.NewBackend(t), begin: time.Now()}
	r.backend.OnCall(func(c proxiertest.Call) {
		line := fmt.Sprintf("%v %s", time.Since(r.begin), c.Op)
		if c.Err != nil {
			line += " failed"
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.at = append(r.at, line)
	})
	cfg.Observe = func(x proxier.Round) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.rounds = append(r.rounds, x)
	}
	p, err := proxier.New(r.backend, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.Proxier = p
	return r
}

// start runs the Proxier and stops it when the test ends.
func (r *rig) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run() = %v, want nil after its context ended", err)
		}
	})
	synctest.Wait()
}

// expect compares the calls since the last expect, and forgets them.
func (r *rig) expect(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, r.take()); diff != "" {
		t.Errorf("calls of the backend (-want +got):\n%s", diff)
	}
}

// take returns the calls since the last take.
func (r *rig) take() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.at
	r.at = nil
	return at
}

func (r *rig) lastRound() proxier.Round {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rounds[len(r.rounds)-1]
}

// pass lets time go by in a synctest bubble.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the clock of a synctest bubble
}

func clusterService(n int) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("svc-%d", n)},
		Spec:       corev1.ServiceSpec{ClusterIP: fmt.Sprintf("10.96.%d.%d", n/250, n%250+1), Ports: []corev1.ServicePort{{Port: 80}}},
	}
}

func sliceOf(n int, ips ...string) *discoveryv1.EndpointSlice {
	es := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: fmt.Sprintf("svc-%d-a", n),
			Labels: map[string]string{discoveryv1.LabelServiceName: fmt.Sprintf("svc-%d", n)},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new(""), Port: new(int32(8080))}},
	}
	for _, ip := range ips {
		es.Endpoints = append(es.Endpoints, discoveryv1.Endpoint{Addresses: []string{ip}})
	}
	return es
}

func TestRunWaitsForEveryFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, proxier.Config{})
		a, b := r.Feed("services"), r.Feed("slices")
		r.start(t)
		a.SetService(clusterService(1))
		a.Synced()
		pass(time.Minute)
		r.expect(t)
		st := r.Status()
		if diff := cmp.Diff([]string{"slices"}, st.Waiting); diff != "" {
			t.Errorf("Status().Waiting (-want +got):\n%s", diff)
		}
		if !st.Stale(time.Now(), 59*time.Second) {
			t.Error("a Proxier that has waited for a minute does not look stale")
		}
		b.SetEndpointSlice(sliceOf(1, "10.244.0.1"))
		b.Synced()
		r.expect(t, "1m0s Reset")
		if got := r.backend.State().Ports; len(got) != 1 || len(got[0].Cluster) != 1 {
			t.Errorf("in force are %v, want the Service with its endpoint at once", got)
		}
		if st := r.Status(); len(st.Waiting) > 0 || !st.QueuedSince.IsZero() || !st.LastSuccess.Equal(time.Now()) {
			t.Errorf("Status() = %+v after the first success", st)
		}
	})
}

func TestRunFiresAtOnceAndGathersBursts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, proxier.Config{MinInterval: 50 * time.Millisecond})
		feed := r.Feed("objects")
		feed.Synced()
		r.start(t)
		r.expect(t, "0s Reset")

		pass(time.Second)
		feed.SetService(clusterService(0)) // after a quiet: at once
		synctest.Wait()
		for i := 1; i <= 40; i++ { // a change each millisecond: gathered
			pass(time.Millisecond)
			feed.SetService(clusterService(i))
		}
		pass(time.Second)
		r.expect(t, "1s Apply", "1.05s Apply")
		calls := r.backend.Calls()
		if got := len(calls[len(calls)-1].Delta.Update); got != 40 {
			t.Errorf("the second Apply has %d updates, want all 40", got)
		}

		svc := clusterService(3) // nothing that matters changes
		svc.ResourceVersion = "2"
		feed.SetService(svc)
		feed.DeleteService(types.NamespacedName{Namespace: "ns", Name: "unknown"})
		feed.DeleteEndpointSlice(types.NamespacedName{Namespace: "ns", Name: "unknown"})
		pass(time.Second)
		r.expect(t)
	})
}

func TestRunKeepsInputUntilItIsInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, proxier.Config{})
		feed := r.Feed("objects")
		feed.SetService(clusterService(1))
		feed.Synced()
		r.start(t)
		r.expect(t, "0s Reset")

		pass(time.Second)
		broken := errors.New("kernel says no")
		r.backend.Fail(func(proxiertest.Call) error { return broken })
		feed.SetEndpointSlice(sliceOf(1, "10.244.0.1"))
		pass(2 * time.Second)
		r.expect(t, "1s Apply failed", "1.1s Reset failed", "1.3s Reset failed", "1.7s Reset failed", "2.5s Reset failed")
		st := r.Status()
		if !errors.Is(st.LastError, broken) || st.Failures != 5 || !st.QueuedSince.Equal(r.begin.Add(time.Second)) {
			t.Errorf("Status() = %+v, want 5 failures and a change queued since 1s", st)
		}

		pass(3 * time.Minute)
		r.take()
		pass(time.Minute)
		if at := r.take(); len(at) != 2 {
			t.Errorf("tries in a minute of lasting failure: %v, want one each 30s", at)
		}
		r.backend.Fail(nil)
		pass(time.Minute)
		if got := r.backend.State().Ports; len(got) != 1 || len(got[0].Cluster) != 1 {
			t.Errorf("in force are %v, want the endpoint that came during the failure", got)
		}
		if last := r.lastRound(); !last.Reset || last.Err != nil || last.Ports != 1 || last.Queued < time.Minute {
			t.Errorf("the last round was observed as %+v", last)
		}
		r.take()
		feed.DeleteService(types.NamespacedName{Namespace: "ns", Name: "svc-1"})
		pass(time.Second)
		if at := r.take(); len(at) != 1 || len(r.backend.State().Ports) != 0 {
			t.Errorf("after recovery the backend was called %v, %v left", at, r.backend.State().Ports)
		}
	})
}

// A change that comes while the backend works on another belongs to the next
// round, whether the present one fails or not.
func TestRunChangeDuringACall(t *testing.T) {
	for _, fails := range []error{nil, errors.New("no")} {
		t.Run(fmt.Sprint(fails), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, proxier.Config{})
				feed := r.Feed("objects")
				feed.Synced()
				r.start(t)
				pass(time.Second)
				first := true
				r.backend.Fail(func(proxiertest.Call) error {
					if !first {
						return nil
					}
					first = false
					feed.SetService(clusterService(2))
					r.RequestReset()
					pass(300 * time.Millisecond)
					return fails
				})
				feed.SetService(clusterService(1))
				pass(time.Second)
				if fails == nil {
					r.expect(t, "0s Reset", "1.3s Apply", "1.32s Reset")
				} else {
					r.expect(t, "0s Reset", "1.3s Apply failed", "1.4s Reset")
				}
				if got := len(r.backend.State().Ports); got != 2 {
					t.Errorf("%d service ports in force, want 2", got)
				}
			})
		})
	}
}

// A backend that hangs holds changes up as much as one that fails.
func TestStatusWhileTheBackendHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, proxier.Config{})
		feed := r.Feed("objects")
		feed.Synced()
		var hang atomic.Bool
		hang.Store(true)
		r.backend.Fail(func(proxiertest.Call) error {
			if hang.Load() {
				pass(10 * time.Minute)
			}
			return nil
		})
		r.start(t)
		pass(5 * time.Minute)
		feed.SetService(clusterService(1))
		pass(time.Minute)
		if st := r.Status(); !st.QueuedSince.Equal(r.begin) {
			t.Errorf("Status().QueuedSince = %v in the first Reset, want the start of Run, %v", st.QueuedSince, r.begin)
		}
		hang.Store(false)
		pass(5 * time.Minute) // the Reset is through, and so is what came during it
		r.expect(t, "10m0s Reset", "10m0.02s Apply")
		if last := r.lastRound(); last.Queued != 5*time.Minute+20*time.Millisecond {
			t.Errorf("the change waited for %v, want 5m0.02s: it came during the Reset", last.Queued)
		}
		if st := r.Status(); !st.QueuedSince.IsZero() {
			t.Errorf("Status().QueuedSince = %v at rest, want zero", st.QueuedSince)
		}
	})
}

func TestRunZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, proxier.Config{Node: proxier.Node{Zone: "a"}})
		feed := r.Feed("objects")
		feed.SetService(clusterService(1))
		es := sliceOf(1, "10.244.0.1", "10.244.0.2")
		es.Endpoints[0].Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "a"}}}
		es.Endpoints[1].Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "b"}}}
		feed.SetEndpointSlice(es)
		feed.Synced()
		r.start(t)
		r.SetZone("b")
		pass(time.Second)
		if got := r.backend.State().Ports[0].Cluster; len(got) != 1 || got[0].Addr.String() != "10.244.0.2:8080" {
			t.Errorf("endpoints are %v, want that of the new zone", got)
		}
	})
}

func TestRunTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, proxier.Config{})
		r.start(t)
		if err := r.Run(t.Context()); err == nil {
			t.Error("a second Run() = nil, want an error")
		}
	})
}

func TestNewRefuses(t *testing.T) {
	b := proxiertest.NewBackend(t)
	tests := []struct {
		name    string
		backend proxier.Backend
		cfg     proxier.Config
	}{
		{name: "no backend"},
		{name: "negative retry", backend: b, cfg: proxier.Config{MinRetry: -1}},
		{name: "retry bounds crossed", backend: b, cfg: proxier.Config{MinRetry: 2, MaxRetry: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := proxier.New(tt.backend, tt.cfg); err == nil {
				t.Error("New() = nil error, want one")
			}
		})
	}
}

func TestRunNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := proxier.Network{NodeAddrs: []netip.Addr{netip.MustParseAddr("10.0.0.2")}}
		r := newRig(t, proxier.Config{Network: network})
		r.Feed("objects").Synced()
		r.start(t)
		r.expect(t, "0s Reset")
		r.SetNetwork(network)
		pass(time.Second)
		r.expect(t)
		network.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}
		r.SetNetwork(network)
		r.expect(t, "1s Reset")
		calls := r.backend.Calls()
		if got := calls[len(calls)-1].State.Network; !got.Equal(network) {
			t.Errorf("the backend was told of %v, want %v", got, network)
		}
	})
}

// follower notes what it is told, in words.
type follower struct{ lines []string }

func (f *follower) Reset(s *proxier.State) {
	f.lines = append(f.lines, fmt.Sprintf("%d ports", len(s.Ports)))
}
func (f *follower) Applied(d proxier.Delta) { f.lines = append(f.lines, d.String()) }

func TestFollowersHearOfWhatIsInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &follower{}
		r := newRig(t, proxier.Config{Followers: []proxier.Follower{f}})
		feed := r.Feed("objects")
		feed.Synced()
		r.start(t)
		feed.SetService(clusterService(1))
		pass(time.Second)
		r.backend.Fail(func(proxiertest.Call) error { return errors.New("no") })
		feed.SetService(clusterService(2))
		pass(time.Second)
		r.backend.Fail(nil)
		pass(time.Minute)
		synctest.Wait()
		want := []string{"0 ports", "+ ns/svc-1 TCP IPv4; at ClusterIP 10.96.0.2:80; no endpoints\n", "2 ports"}
		if diff := cmp.Diff(want, f.lines); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}

func TestRoundTellsWhatTriggeredIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, proxier.Config{})
		feed := r.Feed("objects")
		feed.SetService(clusterService(1))
		feed.Synced()
		r.start(t)
		pass(time.Second)
		at := time.Now()
		es := sliceOf(1, "10.244.0.1")
		es.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: at.Format(time.RFC3339Nano)}
		r.backend.Fail(func(proxiertest.Call) error { return errors.New("no") })
		feed.SetEndpointSlice(es)
		pass(50 * time.Millisecond)
		r.backend.Fail(nil)
		pass(time.Second)
		if got := r.lastRound().Triggers; len(got) != 1 || !got[0].Equal(at) {
			t.Errorf("triggers are %v, want the time in the annotation", got)
		}
		es = sliceOf(1, "10.244.0.2")
		es.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: r.begin.Add(-time.Hour).Format(time.RFC3339Nano)}
		feed.SetEndpointSlice(es)
		pass(time.Second)
		if got := r.lastRound().Triggers; len(got) != 0 {
			t.Errorf("triggers are %v, want none from before the start", got)
		}
	})
}

func TestRunPausesByWhatRoundsCost(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0:                      time.Millisecond,
		2 * time.Millisecond:   8 * time.Millisecond,
		100 * time.Millisecond: proxier.DefaultMaxPause,
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, proxier.Config{})
			feed := r.Feed("objects")
			feed.Synced()
			r.start(t)
			pass(time.Second)
			r.backend.Fail(func(proxiertest.Call) error { pass(took); return nil })
			r.take()
			begin := time.Now()
			feed.SetService(clusterService(1))
			pass(max(took/2, 1))
			feed.SetService(clusterService(2))
			pass(time.Second)
			calls := r.take()
			if len(calls) != 2 {
				t.Fatalf("calls are %v, want two", calls)
			}
			end := begin.Sub(r.begin) + took + want + took
			if calls[1] != fmt.Sprintf("%v Apply", end) {
				t.Errorf("after a round of %v the calls ended %v, want the second at %v", took, calls, end)
			}
		})
	}
}
