package node

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable/capacity"
	"github.com/nodekit-go/nodekit/allocatable/config"
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
