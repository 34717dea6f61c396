package podsync_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/podsync"
)

// groups remembers the memory limit of the pod that its cgroup was set to each time.
type groups struct {
	mu   sync.Mutex
	sets []string
	err  error
}

func (g *groups) EnsurePod(_ context.Context, pod *corev1.Pod) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return g.err
	}
	g.sets = append(g.sets, pod.Spec.Resources.Limits.Memory().String())
	return nil
}

func (g *groups) RemovePod(context.Context, types.UID) error { return nil }

func (g *groups) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
}

// taken returns the different limits in order, and forgets them.
func (g *groups) taken() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	sets := slices.Compact(g.sets)
	g.sets = nil
	return sets
}

func memory(amount string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(amount)}
}

// wholePod has resources as a whole; one container has a limit of its own, the other has not.
func wholePod(limit string) *corev1.Pod {
	p := newPod("whole")
	p.Annotations = nil
	p.Spec.Resources = &corev1.ResourceRequirements{Requests: memory("16Mi"), Limits: memory(limit)}
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: memory("8Mi")}
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "free", Image: shell})
	return p
}

// memoryLimit returns the limit that the runtime holds a container to.
func memoryLimit(a *agent, m *machine, name string) int64 {
	m.t.Helper()
	id, err := m.ContainerID("default/whole", name)
	if err != nil {
		m.t.Fatal(err)
	}
	resp, err := a.client.ContainerStatus(m.t.Context(), id, false)
	if err != nil {
		m.t.Fatal(err)
	}
	return resp.GetStatus().GetResources().GetLinux().GetMemoryLimitInBytes()
}

// TestResizeOfTheWholePod changes what a pod has as a whole while it runs: its cgroup
// grows before its containers and shrinks after them, and containers without a limit of
// their own follow.
func TestResizeOfTheWholePod(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		g := &groups{}
		d := &desk{}
		a := m.agent(t, func(c *podsync.Config) { c.Parts.PodCgroups, c.Parts.Resizer = g, d })
		a.add(wholePod("64Mi"))
		pass(4 * time.Second)
		g.taken()
		check := func(what string, sets []string, limit int64) {
			t.Helper()
			if diff := cmp.Diff(sets, g.taken()); diff != "" {
				t.Errorf("%s: limits of the cgroup (-want +got):\n%s", what, diff)
			}
			if own, free := memoryLimit(a, m, "app"), memoryLimit(a, m, "free"); own != 8<<20 || free != limit {
				t.Errorf("%s: containers are held to %d and %d bytes, want %d and %d", what, own, free, 8<<20, limit)
			}
			st := a.status(wholePod("1Mi"))
			if got := condition(&st, corev1.PodResizeInProgress); got != "" {
				t.Errorf("%s: PodResizeInProgress is %q at the end", what, got)
			}
		}
		a.add(wholePod("128Mi"))
		pass(2 * time.Second)
		check("grown", []string{"128Mi"}, 128<<20)
		a.add(wholePod("32Mi"))
		pass(2 * time.Second)
		check("shrunk", []string{"128Mi", "32Mi"}, 32<<20)
		d.full.Store(true)
		a.add(wholePod("256Mi"))
		pass(2 * time.Second)
		st := a.status(wholePod("1Mi"))
		if got := condition(&st, corev1.PodResizePending); got != "True Deferred" {
			t.Errorf("PodResizePending is %q, want deferred", got)
		}
		if got := st.Resources.Limits.Memory().String(); got != "32Mi" {
			t.Errorf("the status shows a limit of %s, want what the pod has", got)
		}
		check("deferred", nil, 32<<20)
		a.stop()
		d.full.Store(false)
		a = m.agent(t, func(c *podsync.Config) { c.Parts.PodCgroups, c.Parts.Resizer = g, d })
		a.add(wholePod("96Mi"))
		pass(2 * time.Second)
		check("while no agent ran", []string{"96Mi"}, 96<<20)
		if got := len(m.Calls("StartContainer")); got != 2 {
			t.Errorf("%d starts, want one of each container", got)
		}
	})
}

// TestResizeOfTheWholePodThatFails is told, and done when it can be.
func TestResizeOfTheWholePodThatFails(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		g := &groups{}
		a := m.agent(t, func(c *podsync.Config) { c.Parts.PodCgroups = g })
		pod := func(limit string) *corev1.Pod {
			p := wholePod(limit)
			p.Spec.Containers = p.Spec.Containers[:1] // no container follows
			return p
		}
		a.add(pod("64Mi"))
		pass(4 * time.Second)
		g.fail(errors.New("in use"))
		a.add(pod("32Mi"))
		pass(2 * time.Second)
		st := a.status(pod("1Mi"))
		if got := condition(&st, corev1.PodResizeInProgress); got != "True Error" {
			t.Errorf("PodResizeInProgress is %q, want an error", got)
		}
		if has, allocated := st.Resources.Limits.Memory().String(), st.AllocatedResources.Memory().String(); has != "64Mi" || allocated != "16Mi" {
			t.Errorf("the status shows a limit of %s and %s allocated, want 64Mi, which the pod still has, and 16Mi", has, allocated)
		}
		g.fail(nil)
		pass(2 * time.Minute)
		st = a.status(pod("1Mi"))
		if got := condition(&st, corev1.PodResizeInProgress); got != "" {
			t.Errorf("PodResizeInProgress is %q at the end", got)
		}
		if has := st.Resources.Limits.Memory().String(); has != "32Mi" {
			t.Errorf("the status shows a limit of %s at the end, want 32Mi", has)
		}
		if sets := g.taken(); len(sets) == 0 || sets[len(sets)-1] != "32Mi" {
			t.Errorf("limits of the cgroup were %q, want 32Mi in the end", sets)
		}
	})
}

// TestSwapIsNotResized: what a container may swap follows from its memory request.
func TestSwapIsNotResized(t *testing.T) {
	restarts := []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
	tests := []struct {
		name   string
		swap   int64
		policy []corev1.ContainerResizePolicy
		limit  string
		want   string
	}{
		{name: "the node shares swap", swap: 1 << 30, want: "True Infeasible"},
		{name: "it shares none"},
		{name: "the container is restarted", swap: 1 << 30, policy: restarts},
		{name: "a guaranteed pod has none", swap: 1 << 30, limit: "16Mi"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(m *machine) {
				a := m.agent(m.t, func(c *podsync.Config) {
					c.Node.Limits.Swap, c.Node.Limits.SwapController, c.Node.Limits.CgroupV2 = tt.swap, true, true
				})
				pod := func(request string) *corev1.Pod {
					p := newPod("swaps")
					p.Annotations = nil
					c := &p.Spec.Containers[0]
					c.ResizePolicy = tt.policy
					c.Resources.Requests = memory(request)
					if tt.limit != "" {
						r := memory(request)
						r[corev1.ResourceCPU] = resource.MustParse("100m")
						c.Resources = corev1.ResourceRequirements{Requests: r, Limits: r}
					}
					return p
				}
				a.add(pod("8Mi"))
				pass(4 * time.Second)
				a.add(pod("16Mi"))
				pass(4 * time.Second)
				st := a.status(pod("1Mi"))
				if got := condition(&st, corev1.PodResizePending); got != tt.want {
					m.t.Errorf("PodResizePending is %q, want %q", got, tt.want)
				}
			})
		})
	}
}

// TestResizeBelowWhatIsUsed would have the kernel end the container: it is refused in the
// kubelet's words, the container keeps what it has, and a later wish is carried out.
func TestResizeBelowWhatIsUsed(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		a := m.agent(t)
		pod := func(limit string) *corev1.Pod {
			p := wholePod("64Mi")
			p.Spec.Resources = nil
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: memory(limit), Limits: memory(limit)}
			return p
		}
		a.add(pod("64Mi"))
		pass(4 * time.Second)
		a.add(pod("1Ki"))
		pass(2 * time.Second)
		st := a.status(pod("1Ki"))
		at := slices.IndexFunc(st.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizeInProgress })
		if want := regexp.MustCompile(`^resize container app .*: attempting to set container "app" memory limit \(1024\) below current usage \(\d+\)$`); at < 0 || !want.MatchString(st.Conditions[at].Message) {
			t.Errorf("conditions are %+v, want a message like %s", st.Conditions, want)
		}
		if has, limit := st.ContainerStatuses[0].Resources.Limits.Memory().String(), memoryLimit(a, m, "app"); has != "64Mi" || limit != 64<<20 {
			t.Errorf("the container is shown with %s and held to %d bytes, want 64Mi", has, limit)
		}
		a.add(pod("128Mi"))
		pass(time.Minute)
		st = a.status(pod("128Mi"))
		if got, limit := condition(&st, corev1.PodResizeInProgress), memoryLimit(a, m, "app"); got != "" || limit != 128<<20 {
			t.Errorf("PodResizeInProgress is %q with %d bytes, want none and 128Mi", got, limit)
		}
		if got := len(m.Calls("StartContainer")); got != 2 {
			t.Errorf("%d starts, want one of each container", got)
		}
	})
}
