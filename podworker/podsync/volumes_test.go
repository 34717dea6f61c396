package podsync_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// disks are volumes that a test can keep from being ready, or from going.
type disks struct {
	mu sync.Mutex // guards the fields below
	// stuck is why volumes cannot be set up or torn down, after a wait.
	stuck  error
	labels []string
	torn   int
}

func (d *disks) set(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stuck = err
}

// limit is how long volumes that are not ready are waited for, as by the Manager.
const limit = 2*time.Minute + 3*time.Second

func (d *disks) SetUp(ctx context.Context, pod *corev1.Pod) (map[string]podspec.Volume, error) {
	d.mu.Lock()
	d.labels = append(d.labels, pod.Labels["version"])
	d.mu.Unlock()
	if len(pod.Spec.Volumes) == 0 {
		return nil, nil
	}
	for end := time.Now().Add(limit); ; {
		d.mu.Lock()
		err := d.stuck
		d.mu.Unlock()
		if err == nil {
			return map[string]podspec.Volume{"data": {Path: "/data", ReadOnly: true}}, nil
		}
		if time.Now().After(end) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func (d *disks) TearDown(context.Context, types.UID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stuck == nil {
		d.torn++
	}
	return d.stuck
}

// seen returns the labels of the pods that volumes were set up for.
func (d *disks) seen() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.labels)
}

func withData(name string) *corev1.Pod {
	pod := newPod(name, corev1.Container{Name: "app", Image: shell, VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}})
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	return pod
}

// TestPodWaitsForItsVolumes has a volume that is not ready for three minutes: nothing is
// made for the pod before, and the user is told why.
func TestPodWaitsForItsVolumes(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		d := &disks{stuck: errors.New("unmounted volumes=[data]")}
		a := m.agent(t, func(c *podsync.Config) { c.Parts.Volumes = d })
		pod := withData("waits")
		a.add(pod)
		neighbour := newPod("neighbour")
		a.add(neighbour)
		pass(5 * time.Second)
		st := a.status(pod)
		if w := st.ContainerStatuses[0].State.Waiting; st.Phase != corev1.PodPending || w == nil || w.Reason != "ContainerCreating" {
			t.Errorf("phase %s, container %+v; want Pending, ContainerCreating", st.Phase, w)
		}
		if got := condition(&st, corev1.PodReadyToStartContainers); got != "False PodSandboxNotReady" {
			t.Errorf("PodReadyToStartContainers is %q", got)
		}
		if st := a.status(neighbour); st.Phase != corev1.PodRunning {
			t.Errorf("the pod beside it is %s", st.Phase)
		}
		pass(limit)
		want := "Unable to attach or mount volumes: unmounted volumes=[data]"
		if got := a.told("FailedMount"); len(got) != 1 || !strings.HasSuffix(got[0], want) {
			t.Errorf("events %q, want one with %q", got, want)
		}
		if got := len(m.Calls("RunPodSandbox")); got != 1 {
			t.Errorf("%d sandboxes, want that of the other pod only", got)
		}
		d.set(nil)
		pass(20 * time.Second)
		if st := a.status(pod); st.Phase != corev1.PodRunning {
			t.Errorf("with its volumes the pod is %s", st.Phase)
		}
		id, err := m.ContainerID("default/waits", "app")
		if err != nil {
			t.Fatal(err)
		}
		mounts := createdWith(t, m, id)
		if !slices.ContainsFunc(mounts, func(line string) bool { return line == "/data /data ro" }) {
			t.Errorf("mounts are %q, want /data read-only", mounts)
		}
	})
}

// createdWith returns the mounts a container was created with.
func createdWith(t *testing.T, m *machine, id string) []string {
	t.Helper()
	resp, err := m.Client(t).ContainerStatus(t.Context(), id, false)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, mount := range resp.GetStatus().GetMounts() {
		mode := "rw"
		if mount.GetReadonly() {
			mode = "ro"
		}
		lines = append(lines, mount.GetHostPath()+" "+mount.GetContainerPath()+" "+mode)
	}
	return lines
}

// TestPodIsDeletedWhileItWaits has a pod go whose volumes never come.
func TestPodIsDeletedWhileItWaits(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		d := &disks{stuck: errors.New("never")}
		a := m.agent(t, func(c *podsync.Config) { c.Parts.Volumes = d })
		pod := withData("waits")
		a.add(pod)
		pass(5 * time.Second)
		a.remove(pod)
		pass(5 * time.Second)
		s, ok := a.pool.State(pod.UID)
		if ok && s.Done() {
			t.Error("the pod is done before its volumes are gone")
		}
		d.set(nil)
		pass(30 * time.Second)
		if s, ok := a.pool.State(pod.UID); ok && !s.Done() {
			t.Errorf("the pod is %v after its volumes are gone", s.Phase)
		}
		if got := a.told("FailedMount"); len(got) != 0 {
			t.Errorf("events %q about a pod that goes", got)
		}
	})
}

// TestVolumesFollowThePod sets them up anew for a pod that has changed, and for a process
// that does not know them; what runs goes on when that fails.
func TestVolumesFollowThePod(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		d := &disks{}
		a := m.agent(t, func(c *podsync.Config) { c.Parts.Volumes = d })
		pod := withData("follows")
		pod.Labels = map[string]string{"version": "1"}
		a.add(pod)
		pass(3 * time.Minute) // with some syncs of a pod that does not change
		changed := pod.DeepCopy()
		changed.Labels["version"] = "2"
		a.add(changed)
		pass(5 * time.Second)
		if got := strings.Join(d.seen(), " "); got != "1 2" {
			t.Errorf("set up for the versions %q, want 1 2", got)
		}
		before, err := m.ContainerID("default/follows", "app")
		if err != nil {
			t.Fatal(err)
		}
		a.stop()

		d.set(errors.New("the API server is away"))
		b := m.agent(t, func(c *podsync.Config) { c.Parts.Volumes = d })
		b.add(changed)
		pass(5 * time.Minute)
		if st := b.status(changed); st.Phase != corev1.PodRunning {
			t.Errorf("after a restart the pod is %s", st.Phase)
		}
		if after, err := m.ContainerID("default/follows", "app"); err != nil || after != before {
			t.Errorf("container %s, then %s (%v)", before, after, err)
		}
	})
}

// TestVolumesThatDoNotGo keep a pod from being done, and nothing else.
func TestVolumesThatDoNotGo(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		d := &disks{}
		m.SetLives("app", runtimetest.Life{})
		a := m.agent(t, func(c *podsync.Config) { c.Parts.Volumes = d })
		pod := withData("busy")
		a.add(pod)
		pass(5 * time.Second)
		d.set(errors.New("target is busy"))
		a.remove(pod)
		pass(time.Minute)
		if s, _ := a.pool.State(pod.UID); s.Done() {
			t.Error("the pod is done with a volume that is mounted")
		}
		if err := a.syncer.Forget(t.Context(), pod.UID); err == nil || !strings.Contains(err.Error(), "target is busy") {
			t.Errorf("Forget says %v", err)
		}
		d.set(nil)
		pass(time.Minute)
		if s, ok := a.pool.State(pod.UID); ok && !s.Done() {
			t.Errorf("the pod is %v", s.Phase)
		}
	})
}

func TestWithoutVolumesPodsWithSomeAreRefused(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		a := m.agent(t, func(c *podsync.Config) { c.Parts.Volumes = nil })
		pod := withData("refused")
		a.add(pod)
		pass(5 * time.Second)
		if st := a.status(pod); st.Phase != corev1.PodFailed || !strings.Contains(st.Message, "spec.volumes[0].emptyDir: this agent sets up no volumes") {
			t.Errorf("phase %s: %s", st.Phase, st.Message)
		}
	})
}

// shared has volumes that only some groups may use.
type shared struct{ groups []*int64 }

func (s shared) SetUp(context.Context, *corev1.Pod) (map[string]podspec.Volume, error) {
	out := map[string]podspec.Volume{"data": {Path: "/data"}}
	for i, g := range s.groups {
		out[fmt.Sprint("shared-", i)] = podspec.Volume{Path: "/shared", Group: g}
	}
	return out, nil
}

func (shared) TearDown(context.Context, types.UID) error { return nil }

// TestGroupsOfVolumes are given to the sandbox and to each container, once, beside those that
// the pod was granted.
func TestGroupsOfVolumes(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		a := m.agent(t, func(c *podsync.Config) {
			c.Parts.Volumes = shared{groups: []*int64{new(int64(2000)), nil, new(int64(1500)), new(int64(2000))}}
			c.Parts.Grant = func(context.Context, *corev1.Pod) (podspec.Grant, error) {
				return podspec.Grant{Groups: []int64{7}}, nil
			}
		})
		pod := withData("groups")
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{SupplementalGroups: []int64{1500, 9}}
		a.add(pod)
		pass(5 * time.Second)
		want := []int64{7, 1500, 2000, 9}
		for _, call := range m.Calls("RunPodSandbox") {
			got := call.Request.(*runtimeapi.RunPodSandboxRequest).GetConfig().GetLinux().GetSecurityContext().GetSupplementalGroups()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("groups of the sandbox (-want +got):\n%s", diff)
			}
		}
		calls := m.Calls("CreateContainer")
		if len(calls) != 1 {
			t.Fatalf("%d containers are made, want 1", len(calls))
		}
		got := calls[0].Request.(*runtimeapi.CreateContainerRequest).GetConfig().GetLinux().GetSecurityContext().GetSupplementalGroups()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("groups of the container (-want +got):\n%s", diff)
		}
	})
}
