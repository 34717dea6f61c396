package config

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable"
)

// allocate loads a file and computes what a node of that capacity offers.
func allocate(t *testing.T, text string, capacity map[string]string) (map[string]int64, []Problem) {
	t.Helper()
	cfg, problems, err := Load([]byte(head+text), []string{"evictionHard", "mergeDefaultEvictionSettings", "kubeReserved", "systemReserved", "maxPods", "reservedSystemCPUs"})
	if err != nil {
		t.Fatal(err)
	}
	reserved, err := Reserved(cfg)
	if err != nil {
		t.Fatal(err)
	}
	list := corev1.ResourceList{}
	for name, amount := range capacity {
		list[corev1.ResourceName(name)] = resource.MustParse(amount)
	}
	result, err := allocatable.Compute(list, reserved)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for name, q := range result.Allocatable {
		got[string(name)] = q.Value()
		if name == corev1.ResourceCPU {
			got[string(name)] = q.MilliValue()
		}
	}
	return got, problems
}

func TestSoftThresholdsAndReclaimsTakeNothing(t *testing.T) {
	capacity := map[string]string{"cpu": "8", "memory": "16Gi", "ephemeral-storage": "200Gi", "pods": "110"}
	const reservations = `maxPods: 110
kubeReserved: {cpu: 250m, memory: 1Gi, ephemeral-storage: 2Gi}
systemReserved: {cpu: 250m, memory: 512Mi, ephemeral-storage: 1Gi}
`
	const soft = `evictionSoft: {memory.available: 4Gi, nodefs.available: "40%"}
evictionSoftGracePeriod: {memory.available: 1m30s, nodefs.available: 2m}
evictionMinimumReclaim: {memory.available: 1Gi}
`
	want := map[string]int64{"cpu": 7500, "memory": 13421772800, "ephemeral-storage": 184683593728, "pods": 110}
	for name, hard := range map[string]string{
		"shares":  `evictionHard: {memory.available: "12.5%", nodefs.available: "12.5%", imagefs.available: "15%", nodefs.inodesFree: "5%"}` + "\n",
		"amounts": "evictionHard: {memory.available: 2Gi, nodefs.available: 25Gi}\n",
	} {
		for _, text := range []string{reservations + hard, reservations + hard + soft} {
			got, problems := allocate(t, text, capacity)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: allocatable (-want +got):\n%s", name, diff)
			}
			if err := Err(problems); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestWhichHardThresholdsAreInForce(t *testing.T) {
	capacity := map[string]string{"cpu": "4", "memory": "4Gi", "ephemeral-storage": "100Gi", "pods": "110"}
	all := map[string]string{
		"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%", "imagefs.available": "15%", "imagefs.inodesFree": "5%",
	}
	more := maps.Clone(all)
	more["memory.available"] = "200Mi"
	tests := []struct {
		name, text      string
		want            map[string]string
		memory, storage int64
		warned          bool
	}{
		{name: "nothing set", want: all, memory: 4190109696, storage: 96636764160},
		{
			name: "one set", text: "evictionHard: {memory.available: 200Mi}\n", want: map[string]string{"memory.available": "200Mi"},
			memory: 4085252096, storage: 107374182400, warned: true,
		},
		{
			name: "one set, the others kept", text: "evictionHard: {memory.available: 200Mi}\nmergeDefaultEvictionSettings: true\n",
			want: more, memory: 4085252096, storage: 96636764160,
		},
		{name: "set, with nothing in it", text: "evictionHard: {}\n", want: map[string]string{}, memory: 4 << 30, storage: 100 << 30, warned: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg, _, err := Load([]byte(head+tt.text), nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, cfg.EvictionHard); diff != "" {
				t.Errorf("thresholds (-want +got):\n%s", diff)
			}
			got, problems := allocate(t, tt.text, capacity)
			want := map[string]int64{"cpu": 4000, "memory": tt.memory, "ephemeral-storage": tt.storage, "pods": 110}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("allocatable (-want +got):\n%s", diff)
			}
			warned := slices.ContainsFunc(problems, func(p Problem) bool {
				return p.Severity == Warning && strings.Contains(p.Message, "switches the defaults")
			})
			if warned != tt.warned {
				t.Errorf("problems %v, want a warning: %t", problems, tt.warned)
			}
		})
	}
}

func TestReservedSystemCPUsReplaceCPU(t *testing.T) {
	got, _ := allocate(t, "kubeReserved: {cpu: \"3\"}\nsystemReserved: {cpu: 500m, memory: 1Gi}\nreservedSystemCPUs: 0-1,7\nevictionHard: {memory.available: 0%}\n",
		map[string]string{"cpu": "8", "memory": "4Gi"})
	if diff := cmp.Diff(map[string]int64{"cpu": 5000, "memory": 3 << 30}, got); diff != "" {
		t.Errorf("allocatable (-want +got):\n%s", diff)
	}
}

func TestReservedNamesWhatItCannotRead(t *testing.T) {
	cfg, _, err := Load([]byte(head+"kubeReserved: {cpu: lots}\nsystemReserved: {memory: much}\nreservedSystemCPUs: all\nevictionHard: {memory.available: some}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Reserved(cfg)
	for _, name := range []string{"kubeReserved[cpu]", "systemReserved[memory]", "reservedSystemCPUs", "evictionHard[memory.available]"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v does not name %s", err, name)
		}
	}
}

func TestPods(t *testing.T) {
	for _, tt := range []struct {
		text string
		cpus int
		want int64
	}{
		{"", 4, 110}, {"maxPods: 250\n", 4, 250}, {"podsPerCore: 10\n", 4, 40}, {"maxPods: 30\npodsPerCore: 10\n", 4, 30}, {"podsPerCore: 10\n", 64, 110},
	} {
		cfg, _, err := Load([]byte(head+tt.text), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := Pods(cfg, tt.cpus); got != tt.want {
			t.Errorf("%q with %d CPUs: %d pods, want %d", tt.text, tt.cpus, got, tt.want)
		}
	}
}

func TestCheckCPUs(t *testing.T) {
	cfg, _, err := Load([]byte(head+"reservedSystemCPUs: 0,4-5\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckCPUs(cfg, []int{0, 1, 4, 5}); err != nil {
		t.Error(err)
	}
	if err := CheckCPUs(cfg, []int{0, 1, 2, 3}); err == nil || !strings.Contains(err.Error(), "no CPU 4") {
		t.Errorf("error %v", err)
	}
}

func TestMemoryByNode(t *testing.T) {
	entry := func(node int32, name corev1.ResourceName, amount string) kubeletv1beta1.MemoryReservation {
		return kubeletv1beta1.MemoryReservation{NumaNode: node, Limits: corev1.ResourceList{name: resource.MustParse(amount)}}
	}
	tests := []struct {
		name     string
		reserved []kubeletv1beta1.MemoryReservation
		want     map[int]map[corev1.ResourceName]uint64
		err      string
	}{
		{
			name: "two nodes", reserved: []kubeletv1beta1.MemoryReservation{entry(0, "memory", "100Mi"), entry(1, "memory", "156Mi")},
			want: map[int]map[corev1.ResourceName]uint64{0: {"memory": 100 << 20}, 1: {"memory": 156 << 20}},
		},
		{name: "nothing", err: `reservedMemory: the total amount "0" of type "memory" is not equal to the value "256Mi" that is reserved of the node; change one of them`},
		{
			name: "huge pages", reserved: []kubeletv1beta1.MemoryReservation{entry(0, "memory", "256Mi"), entry(0, "hugepages-2Mi", "4Mi")},
			err: `reservedMemory: the total amount "4Mi" of type "hugepages-2Mi" is not equal to the value "0" that is reserved of the node; change one of them`,
		},
		{
			name: "negative", reserved: []kubeletv1beta1.MemoryReservation{entry(1, "memory", "-1")},
			err: "reservedMemory: memory of NUMA node 1 is -1, must not be negative",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := MemoryByNode(tt.reserved, resource.MustParse("256Mi"))
			text := ""
			if err != nil {
				text = err.Error()
			}
			if text != tt.err {
				t.Fatalf("error %q, want %q", text, tt.err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("reserved (-want +got):\n%s", diff)
			}
		})
	}
}
