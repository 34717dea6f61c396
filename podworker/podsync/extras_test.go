package podsync_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// deviceDesk gives containers a variable, once it has a device, and says how that is.
type deviceDesk struct {
	mu sync.Mutex // guards the fields below
	// missing is why there is no device.
	missing error
	health  corev1.ResourceHealthStatus
	asked   []string
}

func (d *deviceDesk) set(missing error, health corev1.ResourceHealthStatus) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.missing, d.health = missing, health
}

func (d *deviceDesk) ForContainer(_ context.Context, _ *corev1.Pod, c *corev1.Container) (podspec.Extra, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, c.Name)
	if d.missing != nil {
		return podspec.Extra{}, d.missing
	}
	return podspec.Extra{Envs: []*runtimeapi.KeyValue{{Key: "GPU", Value: []byte(c.Name)}}}, nil
}

// NoCPUQuota is true for container app.
func (d *deviceDesk) NoCPUQuota(_ types.UID, container string) bool { return container == "app" }

func (d *deviceDesk) healthOf(_ types.UID, container string) []corev1.ResourceStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	if container != "app" {
		return nil
	}
	return []corev1.ResourceStatus{{Name: "example.com/gpu", Resources: []corev1.ResourceHealth{{ResourceID: "0", Health: d.health}}}}
}

// deskAgent is an agent with a desk.
func deskAgent(m *machine, desk *deviceDesk) *agent {
	return m.agent(m.t, func(c *podsync.Config) { c.Parts.Extras, c.Parts.Health = desk, desk.healthOf })
}

// TestExtrasAreAskedBeforeEachRun restarts a container of which the node has something.
func TestExtrasAreAskedBeforeEachRun(t *testing.T) {
	bubble(t, func(m *machine) {
		m.SetLives("app", runtimetest.Exits(time.Minute, 1), runtimetest.Life{})
		desk := &deviceDesk{}
		a := deskAgent(m, desk)
		pod := newPod("gpu", corev1.Container{Name: "app", Image: shell}, corev1.Container{Name: "side", Image: shell})
		a.add(pod)
		pass(2 * time.Minute)
		if st := a.status(pod).ContainerStatuses[0]; st.RestartCount != 1 || st.State.Running == nil {
			m.t.Fatalf("container app is %+v, want running after a restart", st)
		}
		if diff := cmp.Diff([]string{"app", "side", "app"}, desk.asked); diff != "" {
			m.t.Errorf("runs that were asked for (-want +got):\n%s", diff)
		}
		for _, call := range m.Calls("CreateContainer") {
			config := call.Request.(*runtimeapi.CreateContainerRequest).GetConfig()
			last := config.GetEnvs()[0]
			if last.GetKey() != "GPU" || string(last.GetValue()) != config.GetMetadata().GetName() {
				m.t.Errorf("container %s was created with %v, want its GPU first", config.GetMetadata().GetName(), config.GetEnvs())
			}
		}
	})
}

// TestContainerWaitsForItsExtras has what a container needs come late, as the plugin of a
// device after a reboot.
func TestContainerWaitsForItsExtras(t *testing.T) {
	bubble(t, func(m *machine) {
		desk := &deviceDesk{missing: errors.New("no device plugin has registered yet")}
		a := deskAgent(m, desk)
		pod := newPod("gpu", corev1.Container{Name: "app", Image: shell})
		a.add(pod)
		pass(10 * time.Second)
		waits := a.status(pod).ContainerStatuses[0].State.Waiting
		want := corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: "no device plugin has registered yet"}
		if waits == nil || *waits != want {
			m.t.Errorf("container app is %+v, want waiting with %+v", a.status(pod).ContainerStatuses[0].State, want)
		}
		desk.set(nil, corev1.ResourceHealthStatusHealthy)
		pass(2 * time.Minute)
		if st := a.status(pod).ContainerStatuses[0].State; st.Running == nil {
			m.t.Errorf("container app is %+v, want running", st)
		}
	})
}

// TestResizeBringsNoQuotaBack gives more memory to two containers with a limit of CPU, one
// of which has its CPUs to itself.
func TestResizeBringsNoQuotaBack(t *testing.T) {
	bubble(t, func(m *machine) {
		a := deskAgent(m, &deviceDesk{})
		pod := func(memory string) *corev1.Pod {
			p := newPod("pinned", corev1.Container{Name: "app", Image: shell}, corev1.Container{Name: "side", Image: shell})
			p.Annotations = nil
			for i := range p.Spec.Containers {
				list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse(memory)}
				p.Spec.Containers[i].Resources = corev1.ResourceRequirements{Requests: list, Limits: list}
			}
			return p
		}
		a.add(pod("64Mi"))
		pass(4 * time.Second)
		a.add(pod("128Mi"))
		pass(4 * time.Second)
		type told struct{ Memory, Quota, Period int64 }
		got := map[string]told{}
		for _, call := range m.Calls("UpdateContainerResources") {
			r := call.Request.(*runtimeapi.UpdateContainerResourcesRequest).GetLinux()
			got[call.Subject] = told{r.GetMemoryLimitInBytes(), r.GetCpuQuota(), r.GetCpuPeriod()}
			if r.GetCpusetCpus() != "" {
				m.t.Errorf("the CPUs of %s are set to %s, want them left", call.Subject, r.GetCpusetCpus())
			}
		}
		want := map[string]told{"default/pinned/app": {128 << 20, 0, 0}, "default/pinned/side": {128 << 20, 100000, 100000}}
		if diff := cmp.Diff(want, got); diff != "" {
			m.t.Errorf("what the runtime was told (-want +got):\n%s", diff)
		}
	})
}

// TestHealthOfExtrasIsInTheStatus has the device of a running container become unhealthy.
func TestHealthOfExtrasIsInTheStatus(t *testing.T) {
	bubble(t, func(m *machine) {
		desk := &deviceDesk{health: corev1.ResourceHealthStatusHealthy}
		a := deskAgent(m, desk)
		pod := newPod("gpu", corev1.Container{Name: "app", Image: shell}, corev1.Container{Name: "side", Image: shell})
		a.add(pod)
		pass(5 * time.Second)
		for _, health := range []corev1.ResourceHealthStatus{corev1.ResourceHealthStatusHealthy, corev1.ResourceHealthStatusUnhealthy} {
			desk.set(nil, health)
			a.pool.Wake(pod.UID)
			pass(2 * time.Second)
			st := a.status(pod).ContainerStatuses
			want := []corev1.ResourceStatus{{Name: "example.com/gpu", Resources: []corev1.ResourceHealth{{ResourceID: "0", Health: health}}}}
			if diff := cmp.Diff(want, st[0].AllocatedResourcesStatus); diff != "" {
				m.t.Errorf("devices of app (-want +got):\n%s", diff)
			}
			if got := st[1].AllocatedResourcesStatus; got != nil {
				m.t.Errorf("devices of side are %v, want none", got)
			}
		}
	})
}
