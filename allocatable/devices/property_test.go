package devices

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	deviceapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"pgregory.net/rapid"

	"github.com/nodekit-go/nodekit/allocatable/internal/order"
	"github.com/nodekit-go/nodekit/allocatable/topology"
)

// picky is a plugin that prefers some devices to others, in any order.
type picky struct {
	deviceapi.DevicePluginClient
	rank map[string]int
}

func (p *picky) GetPreferredAllocation(_ context.Context, r *deviceapi.PreferredAllocationRequest, _ ...grpc.CallOption) (*deviceapi.PreferredAllocationResponse, error) {
	c := r.GetContainerRequests()[0]
	ids := slices.SortedFunc(slices.Values(c.GetAvailableDeviceIDs()), func(a, b string) int { return cmp.Compare(p.rank[a], p.rank[b]) })
	return &deviceapi.PreferredAllocationResponse{ContainerResponses: []*deviceapi.ContainerPreferredAllocationResponse{{DeviceIDs: ids[:c.GetAllocationSize()]}}}, nil
}

func (p *picky) Allocate(context.Context, *deviceapi.AllocateRequest, ...grpc.CallOption) (*deviceapi.AllocateResponse, error) {
	return &deviceapi.AllocateResponse{ContainerResponses: []*deviceapi.ContainerAllocateResponse{{}}}, nil
}

// history is a life of a Manager without plugins that run: these are played, so that
// every step is done at once.
type history struct {
	*Manager
	file *memoryFile
	pods map[types.UID]*corev1.Pod
	// has is what the containers of pods that have started were given, by owner.
	has map[string]string
	// known is true once there has been a plugin.
	known bool
}

func newHistory() *history {
	h := &history{file: &memoryFile{}, pods: map[types.UID]*corev1.Pod{}, has: map[string]string{}}
	h.restart()
	return h
}

// restart begins a process in which all containers that were given anything run.
func (h *history) restart() {
	cfg, _ := Config{Dir: "/plugins", Ran: func(uid types.UID, c string) bool { return h.has[string(uid)+"/"+c] != "" }}.validate()
	h.Manager = newWith(cfg, nil, h.file)
}

// list plays a plugin that lists devices, some of them unhealthy. Those of a lower rank it
// prefers; without ranks it has no preference.
func (h *history) list(devices map[string]Device, rank map[string]int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := &plugin{
		resource: gpu, socket: "s", close: func() {}, client: &picky{rank: rank},
		options: &deviceapi.DevicePluginOptions{GetPreferredAllocationAvailable: rank != nil},
	}
	h.offers.arrived(p)
	h.offers.listed(p, devices)
	h.known = true
}

// admit allocates devices to a pod and has the plugin answer.
func (h *history) admit(t *rapid.T, pod *corev1.Pod) {
	for _, c := range containersOf(pod) {
		if err := h.Allocate(t.Context(), topology.Request{Pod: pod, Container: c}, topology.Hint{}); err != nil {
			h.Release(pod.UID) // as topology.Manager does
			return
		}
	}
	if err := h.Prepare(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	// What no plugin is known to have had is not of the node.
	if has, want := len(h.hadLocked(topology.Request{Pod: pod}, gpu)), most(pod); has != want && h.offers[gpu] != nil {
		t.Fatalf("pod %s has %d devices, want %d", pod.UID, has, want)
	}
	h.pods[pod.UID] = pod
	for _, c := range containersOf(pod) {
		if s := h.book.get(owner{pod.UID, c.Name, gpu}); s != nil {
			h.has[string(pod.UID)+"/"+c.Name] = fmt.Sprint(s.ids())
		}
	}
}

// most returns how many devices a pod needs at once.
func most(pod *corev1.Pod) int {
	beside, peak := 0, 0
	for _, c := range order.Of(pod) {
		n := int(c.Resources.Limits.Name(gpu, "").Value())
		if c.Ends {
			peak = max(peak, beside+n)
		} else {
			beside += n
		}
	}
	return max(peak, beside)
}

// check looks at what must hold after each step.
func (h *history) check(t *rapid.T) {
	owners := map[string][]owner{}
	for o, s := range h.book.all() {
		for _, id := range s.ids() {
			owners[id] = append(owners[id], o)
		}
	}
	for id, list := range owners {
		h.checkOwners(t, id, list)
		if n := h.book.taken[gpu][id]; n != len(list) {
			t.Fatalf("device %s has %d owners, the ledger counts %d", id, len(list), n)
		}
	}
	for who, ids := range h.has {
		found := false
		for o, s := range h.book.all() {
			found = found || string(o.pod)+"/"+o.container == who && fmt.Sprint(s.ids()) == ids
		}
		if !found {
			t.Fatalf("container %s runs with %s and has other devices now", who, ids)
		}
	}
}

// checkOwners fails if two containers that run at the same time have one device: those of
// different pods, two regular ones, or a sidecar and any after it.
func (h *history) checkOwners(t *rapid.T, id string, list []owner) {
	for i, a := range list {
		for _, b := range list[i+1:] {
			if a.pod != b.pod {
				t.Fatalf("device %s is that of pods %s and %s", id, a.pod, b.pod)
			}
			list := containersOf(h.pod(a.pod))
			at := func(name string) int {
				return slices.IndexFunc(list, func(c *corev1.Container) bool { return c.Name == name })
			}
			first, second := min(at(a.container), at(b.container)), max(at(a.container), at(b.container))
			inits := len(h.pod(a.pod).Spec.InitContainers)
			if first >= inits || !order.Of(h.pod(a.pod))[first].Ends {
				t.Fatalf("device %s is that of %s and %s of pod %s, which run at the same time", id, list[first].Name, list[second].Name, a.pod)
			}
		}
	}
}

func (h *history) pod(uid types.UID) *corev1.Pod { return h.pods[uid] }

// TestNoDeviceTwice goes through random histories of pods, devices and restarts.
func TestNoDeviceTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory()
		next := 0
		t.Repeat(map[string]func(*rapid.T){
			"devices": func(t *rapid.T) {
				devices := map[string]Device{}
				for i := range rapid.IntRange(0, 8).Draw(t, "devices") {
					id := fmt.Sprintf("d%d", i)
					devices[id] = Device{ID: id, Healthy: rapid.IntRange(0, 4).Draw(t, "healthy") > 0, Nodes: []int{i % 2}}
				}
				var rank map[string]int
				if rapid.Bool().Draw(t, "preference") {
					rank = map[string]int{}
					for i, n := range rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6, 7}).Draw(t, "rank") {
						rank[fmt.Sprintf("d%d", i)] = n
					}
				}
				h.list(devices, rank)
			},
			"start a pod": func(t *rapid.T) {
				next++
				var containers []string
				for i, kind := range rapid.SliceOfN(rapid.SampledFrom([]string{"i:", "s:", ""}), 0, 5).Draw(t, "containers") {
					containers = append(containers, fmt.Sprintf("%sc%d=%d", kind, i, rapid.IntRange(0, 3).Draw(t, "count")))
				}
				if h.known {
					h.admit(t, newPod(fmt.Sprintf("p%d", next), append(containers, "app=1")...))
				}
			},
			"end a pod": func(t *rapid.T) {
				if len(h.pods) == 0 {
					t.Skip("there is none")
				}
				uids := make([]types.UID, 0, len(h.pods))
				for uid := range h.pods {
					uids = append(uids, uid)
				}
				slices.Sort(uids)
				uid := rapid.SampledFrom(uids).Draw(t, "pod")
				h.end(uid)
			},
			"admit a pod again": func(t *rapid.T) {
				for _, pod := range h.pods {
					for _, c := range containersOf(pod) {
						// It may be refused, its devices being broken; it keeps them.
						_ = h.Allocate(t.Context(), topology.Request{Pod: pod, Container: c}, topology.Hint{})
					}
				}
			},
			"restart": func(*rapid.T) { h.restart() },
			"":        h.check,
		})
	})
}

// end ends a pod.
func (h *history) end(uid types.UID) {
	for _, c := range containersOf(h.pods[uid]) {
		delete(h.has, string(uid)+"/"+c.Name)
	}
	delete(h.pods, uid)
	h.Release(uid)
	_ = h.save() // the disk does not fail
}
