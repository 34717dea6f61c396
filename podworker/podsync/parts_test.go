package podsync_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker"
	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// slowImages has images after a while, or never.
type slowImages struct {
	takes map[string]time.Duration
	// mu guards the fields below.
	mu        sync.Mutex
	err       error
	forgotten []types.UID
}

// fail sets the error of every image, nil for none.
func (s *slowImages) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *slowImages) ForContainer(ctx context.Context, _ *corev1.Pod, c *corev1.Container, _ *runtimeapi.PodSandboxConfig) (*runtimeapi.Image, error) {
	select {
	case <-time.After(s.takes[c.Name]):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	return &runtimeapi.Image{Id: shell}, nil
}

func (s *slowImages) Forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgotten = append(s.forgotten, uid)
}

// TestSlowPullHidesNothing has the image of the second container take five minutes: the
// first one is published as running, and as ended, while that lasts.
func TestSlowPullHidesNothing(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		m.SetLives("a", runtimetest.Exits(time.Minute, 3))
		a := m.agent(t, func(c *podsync.Config) {
			c.Parts.Images = &slowImages{takes: map[string]time.Duration{"b": 5 * time.Minute}}
		})
		pod := newPod("slow", corev1.Container{Name: "a", Image: shell}, corev1.Container{Name: "b", Image: shell})
		a.add(pod)
		pass(2 * time.Second)
		if st := a.status(pod).ContainerStatuses[0]; st.State.Running == nil {
			t.Errorf("two seconds after the start container a is %+v, want running", st.State)
		}
		pass(time.Minute)
		if st := a.status(pod).ContainerStatuses[0]; st.State.Running == nil || st.RestartCount != 1 || st.LastTerminationState.Terminated == nil {
			t.Errorf("after its end container a is %+v and was restarted %d times, want running again", st.State, st.RestartCount)
		}
		pass(5 * time.Minute)
		if st := a.status(pod).ContainerStatuses[1]; st.State.Running == nil {
			t.Errorf("after the pull container b is %+v, want running", st.State)
		}
	})
}

// TestSlowPullDelaysNothingElse has the image of the first container take its time: the
// second one starts and is restarted as if there were no first, and each is started once.
func TestSlowPullDelaysNothingElse(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		m.SetLives("b", runtimetest.Exits(time.Minute, 3), runtimetest.Life{})
		a := m.agent(t, func(c *podsync.Config) {
			c.Parts.Images = &slowImages{takes: map[string]time.Duration{"a": 5 * time.Minute}}
		})
		pod := newPod("slow", corev1.Container{Name: "a", Image: shell}, corev1.Container{Name: "b", Image: shell})
		a.add(pod)
		pass(3 * time.Second)
		if st := a.status(pod).ContainerStatuses[1]; st.State.Running == nil {
			t.Errorf("three seconds after the start container b is %+v, want running", st.State)
		}
		pass(time.Minute + 2*time.Second)
		if st := a.status(pod).ContainerStatuses[1]; st.State.Running == nil || st.RestartCount != 1 {
			t.Errorf("after its end container b is %+v and was restarted %d times, want running again", st.State, st.RestartCount)
		}
		pass(5 * time.Minute)
		if st := a.status(pod).ContainerStatuses[0]; st.State.Running == nil {
			t.Errorf("after the pull container a is %+v, want running", st.State)
		}
		if got := len(m.Calls("CreateContainer")); got != 3 {
			t.Errorf("%d containers were created, want a once and b twice", got)
		}
	})
}

// imageError is an error as runtime/images has them.
type imageError struct{ after time.Duration }

func (imageError) Error() string               { return "Back-off pulling image" }
func (imageError) WaitingReason() string       { return "ImagePullBackOff" }
func (e imageError) RetryAfter() time.Duration { return e.after }

// TestImageErrorsSayWhatToShow has the reason and the wait from whoever has the images.
func TestImageErrorsSayWhatToShow(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		images := &slowImages{err: imageError{after: 17 * time.Second}}
		a := m.agent(t, func(c *podsync.Config) { c.Parts.Images = images })
		pod := newPod("broken")
		a.add(pod)
		pass(15 * time.Second)
		want := &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "Back-off pulling image"}
		if diff := cmp.Diff(want, a.status(pod).ContainerStatuses[0].State.Waiting); diff != "" {
			t.Errorf("state (-want +got):\n%s", diff)
		}
		images.fail(nil)
		pass(time.Second)
		if st := a.status(pod); st.Phase != corev1.PodPending {
			t.Errorf("the pod is %s before the wait is over", st.Phase)
		}
		pass(5 * time.Second)
		if st := a.status(pod); st.Phase != corev1.PodRunning {
			t.Errorf("the pod is %s after the wait, want running", st.Phase)
		}
		a.remove(pod)
		pass(time.Minute)
		if err := a.syncer.Forget(t.Context(), pod.UID); err != nil || len(images.forgotten) != 1 {
			t.Errorf("forgotten: %v (%v), want the pod", images.forgotten, err)
		}
	})
}

// TestNothingTerminalIsLost keeps the dead container of a pod until its status has
// arrived.
func TestNothingTerminalIsLost(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		var arrived atomic.Bool
		m.SetLives("app", runtimetest.Exits(time.Second, 3))
		a := m.agent(t, func(c *podsync.Config) { c.Parts.Acknowledged = func(types.UID) bool { return arrived.Load() } })
		pod := newPod("job")
		pod.Annotations = nil
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		a.add(pod)
		pass(10 * time.Second)
		a.remove(pod)
		pass(10 * time.Second)
		if err := a.syncer.Forget(t.Context(), pod.UID); !errors.Is(err, podsync.ErrNotAcknowledged) {
			t.Errorf("Forget says %v", err)
		}
		if _, err := m.ContainerID("default/job", "app"); err != nil {
			t.Error(err)
		}
		arrived.Store(true)
		if err := a.syncer.Forget(t.Context(), pod.UID); err != nil {
			t.Error(err)
		}
		if id, err := m.ContainerID("default/job", "app"); err == nil {
			t.Errorf("container %s is left", id)
		}
	})
}

// desk decides about resizes.
type desk struct{ full atomic.Bool }

func (d *desk) Resize(context.Context, *corev1.Pod, *corev1.Pod) (reason, message string) {
	if d.full.Load() {
		return corev1.PodReasonDeferred, "Node didn't have enough resource: cpu"
	}
	return "", ""
}

func condition(st *corev1.PodStatus, kind corev1.PodConditionType) string {
	for _, c := range st.Conditions {
		if c.Type == kind {
			return string(c.Status) + " " + c.Reason
		}
	}
	return ""
}

// TestResize changes the resources of a running pod: not as long as they do not fit,
// then without a restart, and once more while no agent runs.
func TestResize(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		m.SetLives("i", runtimetest.Exits(time.Second, 0))
		d := &desk{}
		d.full.Store(true)
		withDesk := func(c *podsync.Config) { c.Parts.Resizer = d }
		a := m.agent(t, withDesk)
		pod := func(request string) *corev1.Pod {
			p := newPod("grows")
			p.Annotations = nil
			p.Spec.Containers[0].Resources = cpu(request)
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse(strings.Replace(request, "m", "Mi", 1))
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "same", Image: shell, Resources: cpu("50m")})
			p.Spec.InitContainers = []corev1.Container{{Name: "i", Image: shell}}
			return p
		}
		shares := func() int64 {
			t.Helper()
			id, err := m.ContainerID("default/grows", "app")
			if err != nil {
				t.Fatal(err)
			}
			resp, err := a.client.ContainerStatus(t.Context(), id, false)
			if err != nil {
				t.Fatal(err)
			}
			return resp.GetStatus().GetResources().GetLinux().GetCpuShares()
		}
		a.add(pod("100m"))
		pass(4 * time.Second)
		a.add(pod("200m"))
		pass(2 * time.Second)
		st := a.status(pod("1"))
		if got := condition(&st, corev1.PodResizePending); got != "True Deferred" || shares() != 102 {
			t.Errorf("PodResizePending is %q with %d shares, want deferred and 102", got, shares())
		}
		d.full.Store(false)
		pass(40 * time.Second)
		st = a.status(pod("1"))
		if got := condition(&st, corev1.PodResizePending); got != "" || shares() != 204 {
			t.Errorf("PodResizePending is %q with %d shares, want none and 204", got, shares())
		}
		if got := condition(&st, corev1.PodResizeInProgress); got != "" {
			t.Errorf("PodResizeInProgress is %q at the end", got)
		}
		if got := st.ContainerStatuses[0].Resources.Requests.Memory().String(); got != "200Mi" {
			t.Errorf("the status tells of a request of %s of memory, which no runtime knows, want 200Mi", got)
		}
		a.stop()
		a = m.agent(t, withDesk)
		a.add(pod("400m"))
		pass(2 * time.Second)
		if got := shares(); got != 409 {
			t.Errorf("%d shares after a resize that no agent saw, want 409", got)
		}
		if got := len(m.Calls("StartContainer")); got != 3 {
			t.Errorf("%d starts, want one of each container", got)
		}
	})
}

// TestDamagedResources has an agent go on with a pod although a power cut damaged what
// the last one wrote down.
func TestDamagedResources(t *testing.T) {
	bubble(t, func(m *machine) {
		a := m.agent(m.t)
		pod := newPod("web")
		pod.Annotations = nil
		pod.Spec.Containers[0].Resources = cpu("100m")
		a.add(pod)
		pass(2 * time.Second)
		a.stop()
		node := m.config().Node
		if err := os.WriteFile(filepath.Join(node.PodDir(pod.UID), "resources.json"), nil, 0o600); err != nil {
			m.t.Fatal(err)
		}
		if err := m.Exit("default/web", "app", runtimetest.Exit{Code: 1}); err != nil {
			m.t.Fatal(err)
		}
		m.agent(m.t).add(pod)
		pass(5 * time.Second)
		if got := len(m.Calls("StartContainer")); got != 2 {
			m.t.Errorf("%d starts, want the container started again", got)
		}
	})
}

// tree and table record what is asked of cgroups and mounts.
type tree struct {
	// mu guards did.
	mu  sync.Mutex
	did []string
}

func (tr *tree) do(what string) error {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.did = append(tr.did, what)
	return nil
}

func (tr *tree) EnsurePod(_ context.Context, pod *corev1.Pod) error {
	return tr.do("ensure " + pod.Name)
}

func (tr *tree) RemovePod(_ context.Context, uid types.UID) error {
	return tr.do("remove " + string(uid))
}

func (tr *tree) Bind(_ context.Context, _, sub, _ string, _ fs.FileMode) error {
	return tr.do("bind " + sub)
}

func (tr *tree) SetUp(_ context.Context, pod *corev1.Pod) (map[string]podspec.Volume, error) {
	return map[string]podspec.Volume{"scratch": {Path: "/scratch"}}, tr.do("set up " + pod.Name)
}

func (tr *tree) TearDown(_ context.Context, uid types.UID) error {
	return tr.do("tear down " + string(uid))
}

// TestCgroupsAndVolumes has volumes set up before anything else, the cgroup made before
// the sandbox, parts of volumes bound before containers, and all of it removed after the
// pod.
func TestCgroupsAndVolumes(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		parts := &tree{}
		a := m.agent(t, func(c *podsync.Config) {
			c.Parts.PodCgroups, c.Parts.Volumes, c.Parts.Mounts = parts, parts, parts
		})
		pod := newPod("parts", corev1.Container{
			Name: "app", Image: shell, VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/s", SubPath: "part"}},
		})
		pod.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		a.add(pod)
		pass(2 * time.Second)
		a.remove(pod)
		pass(time.Minute)
		want := []string{"set up parts", "ensure parts", "bind part", "tear down uid-parts", "remove uid-parts"}
		if diff := cmp.Diff(want, parts.did); diff != "" {
			t.Errorf("done (-want +got):\n%s", diff)
		}
	})
}

// TestGrantNamesTheHandler has a runtime class resolved before the sandbox is run.
func TestGrantNamesTheHandler(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		broken := errors.New("no such class")
		var err atomic.Pointer[error]
		err.Store(&broken)
		a := m.agent(t, func(c *podsync.Config) {
			c.Parts.Grant = func(context.Context, *corev1.Pod) (podspec.Grant, error) {
				if e := err.Load(); e != nil {
					return podspec.Grant{}, *e
				}
				return podspec.Grant{Handler: podspec.Handler{Name: "sandboxed"}}, nil
			}
		})
		a.add(newPod("class"))
		pass(5 * time.Second)
		if got := len(m.Calls("RunPodSandbox")); got != 0 || len(a.told("FailedCreatePodSandBox")) == 0 {
			t.Errorf("%d sandboxes without a handler, events %q", got, a.events)
		}
		err.Store(nil)
		pass(20 * time.Second)
		calls := m.Calls("RunPodSandbox")
		if len(calls) != 1 || calls[0].Request.(*runtimeapi.RunPodSandboxRequest).GetRuntimeHandler() != "sandboxed" {
			t.Errorf("sandboxes: %v, want one with the handler", calls)
		}
	})
}

// TestPlanIsNotDone asks for a plan twice: nothing has changed in between.
func TestPlanIsNotDone(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		s := m.syncer(m.Client(t))
		for range 2 {
			actions, err := s.Plan(t.Context(), newPod("dry"))
			want := "run sandbox, attempt 0: no pod sandbox exists\nstart container app, attempt 0, then back off 0s\n"
			if err != nil || actions.String() != want {
				t.Errorf("plan is %q (%v), want %q", actions, err, want)
			}
		}
		m.WantChanges(t)
		refused := newPod("dry")
		refused.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "closed"}}
		if _, err := s.Plan(t.Context(), refused); err == nil {
			t.Error("a pod that is refused has a plan")
		}
	})
}

// TestOrphanRunsItsHook stops a pod of which only the runtime knows: the preStop hook is
// the one its container was made with.
func TestOrphanRunsItsHook(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		a := m.agent(t)
		pod := newPod("left")
		pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"drain"}}}}
		a.add(pod)
		pass(5 * time.Second)
		a.stop()
		b := m.agent(t)
		sandboxes, err := b.client.ListPodSandbox(t.Context(), nil)
		if err != nil || len(sandboxes) != 1 {
			t.Fatalf("%d sandboxes (%v), want 1", len(sandboxes), err)
		}
		orphan, ok := podsync.Orphan(sandboxes[0])
		if !ok {
			t.Fatal("the sandbox names no pod")
		}
		b.pool.TerminateOrphan(orphan, podworker.Termination{})
		pass(10 * time.Second)
		hooks := m.Calls("ExecSync")
		if len(hooks) != 1 || !slices.Equal(hooks[0].Request.(*runtimeapi.ExecSyncRequest).GetCmd(), []string{"drain"}) {
			t.Errorf("commands are %v, want the hook", hooks)
		}
		if stops := m.Calls("StopContainer"); len(stops) != 1 {
			t.Errorf("%d stops, want 1", len(stops))
		}
	})
}
