package node

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	oci "github.com/opencontainers/cgroups"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable/capacity"
	"github.com/nodekit-go/nodekit/allocatable/cgroups"
	"github.com/nodekit-go/nodekit/allocatable/config"
	"github.com/nodekit-go/nodekit/allocatable/eviction/gauge"
	"github.com/nodekit-go/nodekit/podworker/events"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
	"github.com/nodekit-go/nodekit/podworker/volume"
)

// TestAllPodsAreHeldToWhatIsOffered: without what is reserved, never below nothing, also of
// process IDs; what hard eviction keeps free is theirs. Without enforcement they may have
// the whole machine.
func TestAllPodsAreHeldToWhatIsOffered(t *testing.T) {
	m := capacity.Machine{CPUs: []int{0, 1, 2, 3}, Memory: 8 << 30, PIDs: 32768, HugePages: []capacity.HugePages{{Size: 2 << 20, Count: 512}}}
	tests := []struct {
		name    string
		enforce []string
		edit    func(*kubeletconfig.KubeletConfiguration)
		want    map[string]string
	}{
		{name: "nothing is enforced", enforce: []string{"none"}, want: map[string]string{
			"cpu": "4", "memory": "8Gi", "pid": "32768", "hugepages-2Mi": "1Gi",
		}},
		{name: "pods", enforce: []string{"pods"}, want: map[string]string{
			"cpu": "3500m", "memory": "7Gi", "pid": "31768", "hugepages-2Mi": "1Gi",
		}},
		{name: "reserved CPUs", enforce: []string{"pods"}, edit: func(k *kubeletconfig.KubeletConfiguration) {
			k.ReservedSystemCPUs = "0,1"
		}, want: map[string]string{
			"cpu": "2", "memory": "7Gi", "pid": "31768", "hugepages-2Mi": "1Gi",
		}},
		{name: "more is reserved than there is", enforce: []string{"pods"}, edit: func(k *kubeletconfig.KubeletConfiguration) {
			k.SystemReserved["pid"] = "40000"
		}, want: map[string]string{
			"cpu": "3500m", "memory": "7Gi", "pid": "0", "hugepages-2Mi": "1Gi",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := &kubeletconfig.KubeletConfiguration{
				EnforceNodeAllocatable: tt.enforce,
				KubeReserved:           map[string]string{"pid": "1000", "memory": "512Mi"},
				SystemReserved:         map[string]string{"cpu": "500m", "memory": "512Mi"},
				EvictionHard:           map[string]string{"memory.available": "100Mi"},
			}
			if tt.edit != nil {
				tt.edit(k)
			}
			config.SetDefaults(k)
			r, _ := resourcesOf(m, k) // an impossible reservation is told elsewhere
			got := map[string]string{}
			for name, q := range offered(r, k) {
				if name != "pods" {
					got[string(name)] = q.String()
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("what all pods may have (-want +got):\n%s", diff)
			}
		})
	}
}

// grownGauge notes how much memory it was told of.
type grownGauge struct {
	gauge.Gauge
	capacity int64
}

func (g *grownGauge) SetCapacity(memory int64) { g.capacity = memory }

// TestMachineThatGrows: all pods are held to what it has now, and it is measured by that.
func TestMachineThatGrows(t *testing.T) {
	oci.TestMode = true // lets files be made that the kernel would make
	defer func() { oci.TestMode = false }()
	root := t.TempDir()
	group := filepath.Join(root, "kubepods")
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(group, "cgroup.controllers"), []byte("cpu memory pids\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tree, err := cgroups.New(cgroups.Config{
		Mounts: []cgroups.Mount{{Path: root, V2: true, Controllers: []string{"cpu", "memory", "pids"}}}, Class: podstatus.QOSClass,
	})
	if err != nil {
		t.Fatal(err)
	}
	manager, err := volume.New(volume.Config{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	k := &kubeletconfig.KubeletConfiguration{KubeReserved: map[string]string{"memory": "512Mi"}}
	config.SetDefaults(k)
	n := &Node{cfg: Config{Kubelet: k, Name: "node-a"}}
	has := func(memory int64) *resources {
		r, err := resourcesOf(capacity.Machine{CPUs: []int{0}, Memory: memory, PIDs: 1000}, k)
		if err != nil {
			t.Fatal(err)
		}
		n.resources.p.Store(r)
		return r
	}
	g := &grownGauge{}
	a := &agent{log: slog.New(slog.DiscardHandler), admissions: newAdmissions(nil, nil), helpers: helpers{
		cgroups: &podCgroups{Tree: tree, node: n, changed: make(chan struct{}, 1)}, events: events.New(events.Config{}),
		volumes: &volumes{manager: manager}, pressure: &pressure{meter: &meter{gauge: g}},
	}}
	limit := func() string {
		raw, err := os.ReadFile(filepath.Join(group, "memory.max"))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	has(4 << 30)
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		a.cgroups.changed = make(chan struct{}, 1) // of this bubble
		go func() { ended <- a.enforce(ctx) }()
		synctest.Wait()
		if got := limit(); got != "3758096384" {
			t.Errorf("limit of all pods is %s, want 4Gi without what is reserved", got)
		}
		a.machineChanged(has(8 << 30))
		synctest.Wait()
		if got := limit(); got != "8053063680" || g.capacity != 8<<30 {
			t.Errorf("limit of all pods is %s and %d bytes are measured, want those of 8Gi", got, g.capacity)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
