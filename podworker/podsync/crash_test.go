package podsync_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker"
	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
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

func (m *mortal) ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) (stdout, stderr []byte, err error) {
	return nil, nil, m.do(func() error {
		_, _, err := m.Client.ExecSync(ctx, id, cmd, timeout)
		return err
	})
}

func (m *mortal) UpdateContainerResources(ctx context.Context, id string, r *runtimeapi.ContainerResources) error {
	return m.do(func() error { return m.Client.UpdateContainerResources(ctx, id, r) })
}

// TestKilledAtAnyStep lives the life of a pod of five containers, with an init
// container, a sidecar, hooks, volumes and resources that change, with an agent that is
// killed at the n-th call to the runtime that changes something or the n-th write to the
// disk, before or after it takes effect. The next agent brings the pod to where the first
// would have: every container has run once, in order, and after its end nothing is left.
//
// What is left of a death before a change is what is left of one after the change before
// it: with the race detector, which makes all slow, only deaths after changes are died.
func TestKilledAtAnyStep(t *testing.T) {
	t.Parallel()
	const most = 100
	deaths := []bool{false, true}
	if raced() {
		deaths = deaths[1:]
	}
	for _, when := range []string{"start", "resize", "end"} {
		steps := 0
		for step := 1; ; step++ {
			if step == most {
				t.Fatalf("%s of the pod takes over %d changes", when, most)
			}
			reached := false
			for _, after := range deaths {
				t.Run(fmt.Sprintf("%s, step %d, after %t", when, step, after), func(t *testing.T) {
					bubble(t, func(m *machine) {
						reached = m.killedAt(when, step, after) || reached
					})
				})
			}
			if !reached {
				break
			}
			steps = step
		}
		t.Logf("%s of the pod: killed at each of %d changes", when, steps)
		if least := map[string]int{"start": 20, "resize": 3, "end": 10}[when]; steps < least {
			t.Errorf("%s of the pod has only %d changes, want at least %d: some are not counted", when, steps, least)
		}
	}
}

// fiveContainers is a pod with a bit of everything.
func fiveContainers() *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	hook := func() *corev1.LifecycleHandler {
		return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}
	}
	pod := newPod("web",
		corev1.Container{Name: "a", Image: shell, Lifecycle: &corev1.Lifecycle{PostStart: hook(), PreStop: hook()}},
		corev1.Container{Name: "b", Image: shell, Resources: cpu("100m"), VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}},
		corev1.Container{Name: "c", Image: shell},
	)
	pod.Annotations = nil // of the API server, so that its resources may change
	pod.Spec.InitContainers = []corev1.Container{{Name: "i", Image: shell}, {Name: "s", Image: shell, RestartPolicy: &always}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	return pod
}

func cpu(request string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(request)}}
}

// killedAt lets two agents do the work, of which the first is killed. It reports
// whether that came to pass.
func (m *machine) killedAt(when string, step int, after bool) bool {
	m.SetLives("i", runtimetest.Exits(time.Second, 0))
	pod, resized := fiveContainers(), fiveContainers()
	resized.Spec.Containers[1].Resources = cpu("200m")
	first := &mortal{Client: m.Client(m.t), after: after}
	s, err := podsync.NewOnDisk(first, m.config(), podsync.FrailDisk{Change: first.do})
	if err != nil {
		m.t.Fatal(err)
	}
	killed := false
	phase := func(name string, work func()) {
		if killed {
			return
		}
		first.left.Store(1000)
		if when == name {
			first.left.Store(int64(step))
		}
		work()
		killed = first.left.Load() <= 0
	}
	phase("start", func() { m.sync(s, pod) })
	phase("resize", func() { m.sync(s, resized) })
	phase("end", func() { _ = m.end(s, resized) })

	next := m.syncer(m.Client(m.t))
	if killed && when != "end" {
		before := m.running()
		m.sync(next, resized)
		m.wantOneRunOfEach(resized)
		m.wantStill(before)
		m.wantResized(resized)
	}
	if err := m.end(next, resized); err != nil {
		m.t.Errorf("end of the pod: %v", err)
	}
	snap, err := m.Client(m.t).Snapshot(m.t.Context())
	if err != nil || len(snap.Pods) > 0 {
		m.t.Errorf("%d pods left in the runtime (%v)", len(snap.Pods), err)
	}
	if left, err := next.Remains(m.t.Context()); err != nil || len(left) > 0 {
		m.t.Errorf("%v is left (%v)", left, err)
	}
	m.wantInOrder()
	return killed
}

// running returns the ids of the containers that run.
func (m *machine) running() []string {
	list, err := m.Client(m.t).ListContainers(m.t.Context(), nil)
	if err != nil {
		m.t.Fatal(err)
	}
	var ids []string
	for _, c := range list {
		if c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING && c.GetMetadata().GetName() != "i" {
			ids = append(ids, c.GetId())
		}
	}
	return ids
}

// wantStill fails unless these containers run.
func (m *machine) wantStill(ids []string) {
	m.t.Helper()
	now := m.running()
	for _, id := range ids {
		if !slices.Contains(now, id) {
			m.t.Errorf("container %s ran when the agent was killed, and was stopped by the next one", id)
		}
	}
}

// wantResized fails unless the runtime was told last what container b is to have.
func (m *machine) wantResized(pod *corev1.Pod) {
	m.t.Helper()
	id, err := m.ContainerID("default/web", "b")
	if err != nil {
		m.t.Fatal(err)
	}
	resp, err := m.Client(m.t).ContainerStatus(m.t.Context(), id, false)
	if err != nil {
		m.t.Fatal(err)
	}
	want := podspec.Resources(pod, &pod.Spec.Containers[1], &podspec.Node{}).GetCpuShares()
	if got := resp.GetStatus().GetResources().GetLinux().GetCpuShares(); got != want {
		m.t.Errorf("container b has %d CPU shares, want %d", got, want)
	}
}

// wantInOrder fails unless containers were started in the order of the spec: i, then s,
// and then the others.
func (m *machine) wantInOrder() {
	m.t.Helper()
	var order []string
	for _, call := range m.Calls("StartContainer") {
		if call.Err == nil {
			order = append(order, call.Subject[strings.LastIndexByte(call.Subject, '/')+1:])
		}
	}
	if !slices.IsSorted(slices.Collect(func(yield func(int) bool) {
		for _, name := range order {
			if !yield(strings.Index("isabc", name)) {
				return
			}
		}
	})) {
		m.t.Errorf("containers were started in the order %v", order)
	}
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
		if want := len(pod.Spec.Containers) + len(pod.Spec.InitContainers); len(p.Containers) != want {
			m.t.Errorf("%d containers, want one of each", len(p.Containers))
		}
		for _, c := range p.Containers {
			if c.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING && c.GetMetadata().GetName() != "i" || c.GetMetadata().GetAttempt() != 0 {
				m.t.Errorf("container %s is %s in attempt %d, want running in the first", c.GetMetadata().GetName(), c.GetState(), c.GetMetadata().GetAttempt())
			}
		}
	}
}
