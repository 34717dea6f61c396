package podsync_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/runtime"
)

// mortal is a runtime as an agent sees it that is killed at one of its calls that
// change something: from then on no call of it arrives, and no answer either.
type mortal struct {
	*runtime.Client
	// left is how many changes the agent lives to see. With after the last call is
	// carried out, only its answer is lost.
	left  atomic.Int64
	after bool
}

var errKilled = errors.New("the agent was killed")

// change makes a call, unless the agent is dead.
func change[T any](m *mortal, call func() (T, error)) (T, error) {
	var zero T
	switch left := m.left.Add(-1); {
	case left > 0:
		return call()
	case left == 0 && m.after:
		_, _ = call()
	}
	return zero, errKilled
}

func (m *mortal) do(call func() error) error {
	_, err := change(m, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

func (m *mortal) RunPodSandbox(ctx context.Context, c *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	return change(m, func() (string, error) { return m.Client.RunPodSandbox(ctx, c, handler) })
}

func (m *mortal) StopPodSandbox(ctx context.Context, id string) error {
	return m.do(func() error { return m.Client.StopPodSandbox(ctx, id) })
}

func (m *mortal) RemovePodSandbox(ctx context.Context, id string) error {
	return m.do(func() error { return m.Client.RemovePodSandbox(ctx, id) })
}

func (m *mortal) CreateContainer(ctx context.Context, sandbox string, c *runtimeapi.ContainerConfig, s *runtimeapi.PodSandboxConfig) (string, error) {
	return change(m, func() (string, error) { return m.Client.CreateContainer(ctx, sandbox, c, s) })
}

func (m *mortal) StartContainer(ctx context.Context, id string) error {
	return m.do(func() error { return m.Client.StartContainer(ctx, id) })
}

func (m *mortal) StopContainer(ctx context.Context, id string, timeout int64) error {
	return m.do(func() error { return m.Client.StopContainer(ctx, id, timeout) })
}

func (m *mortal) RemoveContainer(ctx context.Context, id string) error {
	return m.do(func() error { return m.Client.RemoveContainer(ctx, id) })
}

// TestKilledAtAnyStep runs a pod of two containers with an agent that is killed at
// the n-th change it makes, before or after it takes effect. The next agent brings
// the pod to where the first would have: every container has run once, and after its
// end nothing is left. The same again for the calls by which the pod ends.
func TestKilledAtAnyStep(t *testing.T) {
	const most = 20
	for _, when := range []string{"start", "end"} {
		for step := 1; ; step++ {
			if step == most {
				t.Fatalf("%s of the pod takes over %d changes", when, most)
			}
			reached := false
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, step %d, after %t", when, step, after), func(t *testing.T) {
					bubble(t, func(m *machine) {
						reached = m.killedAt(when, step, after) || reached
					})
				})
			}
			if !reached {
				break
			}
		}
	}
}

// killedAt lets two agents do the work, of which the first is killed. It reports
// whether that came to pass.
func (m *machine) killedAt(when string, step int, after bool) bool {
	pod := newPod("web", corev1.Container{Name: "a", Image: shell}, corev1.Container{Name: "b", Image: shell})
	first := &mortal{Client: m.Client(m.t), after: after}
	first.left.Store(1000)
	if when == "start" {
		first.left.Store(int64(step))
	}
	s := m.syncer(first)
	m.sync(s, pod)
	if when == "end" {
		first.left.Store(int64(step))
		_ = m.end(s, pod)
	}
	killed := first.left.Load() <= 0

	next := m.syncer(m.Client(m.t))
	if when == "start" {
		m.sync(next, pod)
		m.wantOneRunOfEach(pod)
	}
	if err := m.end(next, pod); err != nil {
		m.t.Errorf("end of the pod: %v", err)
	}
	snap, err := m.Client(m.t).Snapshot(m.t.Context())
	if err != nil || len(snap.Pods) > 0 {
		m.t.Errorf("%d pods left in the runtime (%v)", len(snap.Pods), err)
	}
	if left, err := next.Remains(m.t.Context()); err != nil || len(left) > 0 {
		m.t.Errorf("%v is left (%v)", left, err)
	}
	return killed
}

func (m *machine) syncer(rt podsync.Runtime) *podsync.Syncer {
	s, err := podsync.New(rt, m.config())
	if err != nil {
		m.t.Fatal(err)
	}
	return s
}

// sync syncs a pod as often as a Pool does in some minutes.
func (m *machine) sync(s *podsync.Syncer, pod *corev1.Pod) {
	for range 5 {
		_, _ = s.Sync(m.t.Context(), pod) // the first agent dies of it
		pass(time.Minute)
	}
}

func (m *machine) end(s *podsync.Syncer, pod *corev1.Pod) error {
	ctx := m.t.Context()
	if err := s.SyncTerminating(ctx, pod, podworker.Termination{Grace: time.Second}); err != nil {
		return err
	}
	if err := s.SyncTerminated(ctx, pod); err != nil {
		return err
	}
	return s.Forget(ctx, pod.UID)
}

func (m *machine) wantOneRunOfEach(pod *corev1.Pod) {
	m.t.Helper()
	snap, err := m.Client(m.t).Snapshot(m.t.Context())
	if err != nil || len(snap.Pods) != 1 {
		m.t.Fatalf("%d pods in the runtime (%v), want 1", len(snap.Pods), err)
	}
	for _, p := range snap.Pods {
		if len(p.Sandboxes) != 1 {
			m.t.Errorf("%d sandboxes, want 1", len(p.Sandboxes))
		}
		if len(p.Containers) != len(pod.Spec.Containers) {
			m.t.Errorf("%d containers, want one of each", len(p.Containers))
		}
		for _, c := range p.Containers {
			if c.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING || c.GetMetadata().GetAttempt() != 0 {
				m.t.Errorf("container %s is %s in attempt %d, want running in the first", c.GetMetadata().GetName(), c.GetState(), c.GetMetadata().GetAttempt())
			}
		}
	}
}
