package podsync_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// lists has what the runtime listed when it was last asked to.
type lists struct {
	client *runtime.Client
	last   atomic.Pointer[runtime.Snapshot]
}

// lists asks the runtime on a connection of its own.
func (m *machine) lists() *lists {
	client, err := runtime.Dial(m.t.Context(), m.Endpoint(), runtime.Config{Dialer: m.DialContext})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = client.Close() })
	return &lists{client: client}
}

func (l *lists) take(t *testing.T) {
	t.Helper()
	snap, err := l.client.Snapshot(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	l.last.Store(snap)
}

func (l *lists) of(uid types.UID) (podsync.Listed, bool) {
	snap := l.last.Load()
	if snap == nil || snap.Pods[uid] == nil {
		return podsync.Listed{}, false
	}
	p := snap.Pods[uid]
	return podsync.Listed{Taken: snap.Taken, Sandboxes: p.Sandboxes, Containers: p.Containers}, true
}

// syncOnce does one Sync.
func (m *machine) syncOnce(s *podsync.Syncer, pod *corev1.Pod) {
	m.t.Helper()
	if _, err := s.Sync(m.t.Context(), pod); err != nil {
		m.t.Fatal(err)
	}
}

// TestUnchangedPodCostsNoCalls counts which Syncs ask for the status of the container.
func TestUnchangedPodCostsNoCalls(t *testing.T) {
	tests := []struct {
		name string
		// before happens between the last observation and the Sync.
		before func(m *machine, l *lists)
		want   bool
	}{
		{name: "listed since", before: func(m *machine, l *lists) { l.take(m.t) }},
		{name: "not listed since", before: func(*machine, *lists) {}, want: true},
		{name: "listed as ended", want: true, before: func(m *machine, l *lists) {
			if err := m.Exit("default/web", "app", runtimetest.Exit{Code: 3}); err != nil {
				m.t.Fatal(err)
			}
			l.take(m.t)
		}},
		{name: "observed long ago", want: true, before: func(m *machine, l *lists) {
			pass(11 * time.Minute)
			l.take(m.t)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(m *machine) {
				l := m.lists()
				cfg := m.config()
				cfg.Parts.Listed = l.of
				s, err := podsync.New(l.client, cfg)
				if err != nil {
					m.t.Fatal(err)
				}
				pod := newPod("web")
				m.syncOnce(s, pod)
				pass(time.Second)
				l.take(m.t)
				m.syncOnce(s, pod) // observes: the Sync before has acted
				pass(time.Second)
				tt.before(m, l)
				asked := len(m.Calls("ContainerStatus"))
				m.syncOnce(s, pod)
				if got := len(m.Calls("ContainerStatus")) > asked; got != tt.want {
					m.t.Errorf("the runtime was asked: %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// failing is a prober whose liveness probe of one container fails.
type failing struct{ id string }

func (f *failing) ProbeResult(id string, kind podstatus.Probe) podstatus.Result {
	if kind == podstatus.Liveness && f.id == id {
		return podstatus.Failure
	}
	return podstatus.Success
}

// TestUnchangedPodIsObservedBeforeAnythingIsDone has a liveness probe fail of a container
// that has ended after the runtime was listed: it is not told to stop.
func TestUnchangedPodIsObservedBeforeAnythingIsDone(t *testing.T) {
	bubble(t, func(m *machine) {
		l, prober := m.lists(), &failing{}
		cfg := m.config()
		cfg.Parts.Listed, cfg.Prober = l.of, prober
		s, err := podsync.New(l.client, cfg)
		if err != nil {
			m.t.Fatal(err)
		}
		pod := newPod("web")
		pod.Spec.Containers[0].LivenessProbe = &corev1.Probe{}
		m.syncOnce(s, pod)
		pass(time.Second)
		m.syncOnce(s, pod)
		pass(time.Second)
		l.take(m.t)
		if err := m.Exit("default/web", "app", runtimetest.Exit{Code: 3}); err != nil {
			m.t.Fatal(err)
		}
		prober.id = l.last.Load().Pods[pod.UID].Containers[0].GetId()
		m.syncOnce(s, pod)
		if stops := m.Calls("StopContainer"); len(stops) > 0 {
			m.t.Errorf("the dead container is told to stop: %v", stops)
		}
	})
}
