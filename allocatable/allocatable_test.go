package allocatable

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// list reads "cpu=4,memory=8Gi".
func list(tb testing.TB, s string) corev1.ResourceList {
	tb.Helper()
	l := corev1.ResourceList{}
	for pair := range strings.SplitSeq(s, ",") {
		if name, amount, ok := strings.Cut(pair, "="); ok {
			l[corev1.ResourceName(name)] = resource.MustParse(amount)
		}
	}
	return l
}

// text is the reverse of list, with names as keys.
func text(l corev1.ResourceList) map[string]string {
	m := map[string]string{}
	for name, q := range l {
		m[string(name)] = q.String()
	}
	return m
}

func threshold(tb testing.TB, s string) Threshold {
	tb.Helper()
	if s == "" {
		return Threshold{}
	}
	th, err := ParseThreshold(s)
	if err != nil {
		tb.Fatal(err)
	}
	return th
}

func termTexts(terms []Term) []string {
	var texts []string
	for _, t := range terms {
		texts = append(texts, string(t.Resource)+" - "+t.String())
	}
	return texts
}

// input is one node, in text.
type input struct {
	capacity, kube, system string
	cpus                   int
	memory, nodefs         string
	unhealthy              string
}

func (in input) reserved(tb testing.TB) Reserved {
	tb.Helper()
	return Reserved{
		Kube: list(tb, in.kube), System: list(tb, in.system), SystemCPUs: in.cpus,
		MemoryAvailable: threshold(tb, in.memory), NodefsAvailable: threshold(tb, in.nodefs),
		Unhealthy: list(tb, in.unhealthy),
	}
}

func TestCompute(t *testing.T) {
	tests := []struct {
		name string
		in   input
		want map[string]string
		by   []string
	}{
		{name: "nothing reserved", in: input{capacity: "cpu=4,memory=8Gi,pods=110"}, want: map[string]string{"cpu": "4", "memory": "8Gi", "pods": "110"}},
		{
			name: "kube-reserved and eviction, in KiB",
			in:   input{capacity: "cpu=4,memory=8141816Ki", kube: "cpu=80m,memory=748480Ki", memory: "100Mi"},
			want: map[string]string{"cpu": "3920m", "memory": "7290936Ki"},
			by:   []string{"cpu - kubeReserved 80m", "memory - kubeReserved 748480Ki", "memory - evictionHard 100Mi (memory.available 100Mi)"},
		},
		{
			name: "everything at once, with percentages",
			in: input{
				capacity: "cpu=8,memory=16Gi,ephemeral-storage=200Gi,pods=110",
				kube:     "cpu=250m,memory=1Gi,ephemeral-storage=2Gi", system: "cpu=250m,memory=512Mi,ephemeral-storage=1Gi",
				memory: "12.5%", nodefs: "12.5%",
			},
			want: map[string]string{"cpu": "7500m", "memory": "12800Mi", "ephemeral-storage": "172Gi", "pods": "110"},
			by: []string{
				"cpu - kubeReserved 250m", "cpu - systemReserved 250m",
				"ephemeral-storage - kubeReserved 2Gi", "ephemeral-storage - systemReserved 1Gi",
				"ephemeral-storage - evictionHard 25Gi (nodefs.available 12.5%)",
				"memory - kubeReserved 1Gi", "memory - systemReserved 512Mi", "memory - evictionHard 2Gi (memory.available 12.5%)",
			},
		},
		{
			name: "huge pages are taken out of memory and offered whole",
			in:   input{capacity: "memory=16Gi,hugepages-1Gi=4Gi,hugepages-2Mi=512Mi", kube: "memory=1Gi", memory: "100Mi"},
			want: map[string]string{"memory": "10652Mi", "hugepages-1Gi": "4Gi", "hugepages-2Mi": "512Mi"},
			by: []string{
				"memory - kubeReserved 1Gi", "memory - evictionHard 100Mi (memory.available 100Mi)",
				"memory - huge pages 4Gi (hugepages-1Gi)", "memory - huge pages 512Mi (hugepages-2Mi)",
			},
		},
		{
			name: "huge pages leave less than is reserved, which is no mistake of the configuration",
			in:   input{capacity: "memory=16Gi,hugepages-2Mi=15872Mi", kube: "memory=730Mi", memory: "100Mi"},
			want: map[string]string{"memory": "0", "hugepages-2Mi": "15872Mi"},
			by: []string{
				"memory - kubeReserved 730Mi", "memory - evictionHard 100Mi (memory.available 100Mi)",
				"memory - huge pages 15872Mi (hugepages-2Mi)",
			},
		},
		{
			name: "CPUs by number replace amounts of cpu only",
			in:   input{capacity: "cpu=16,memory=8Gi", kube: "cpu=3,memory=1Gi", system: "cpu=500m", cpus: 2},
			want: map[string]string{"cpu": "14", "memory": "7Gi"},
			by:   []string{"cpu - reservedSystemCPUs 2 (instead of the cpu of kubeReserved and systemReserved)", "memory - kubeReserved 1Gi"},
		},
		{
			name: "devices that are not healthy", in: input{capacity: "example.com/gpu=4,example.com/nic=2", unhealthy: "example.com/gpu=1,example.com/nic=0"},
			want: map[string]string{"example.com/gpu": "3", "example.com/nic": "2"}, by: []string{"example.com/gpu - unhealthy devices 1"},
		},
		{
			name: "process numbers are explained, not reported", in: input{capacity: "cpu=1,pid=32768", kube: "pid=1k", system: "pid=100"},
			want: map[string]string{"cpu": "1"}, by: []string{"pid - kubeReserved 1k", "pid - systemReserved 100"},
		},
		{
			name: "parts of a unit are kept whole", in: input{capacity: "cpu=1,memory=100", kube: "cpu=100u,memory=1500m"},
			want: map[string]string{"cpu": "999m", "memory": "98"}, by: []string{"cpu - kubeReserved 1m", "memory - kubeReserved 2"},
		},
		{
			name: "shares are exact and round down", in: input{capacity: "memory=4Gi,ephemeral-storage=100Gi", memory: "33.333%", nodefs: "10%"},
			want: map[string]string{"memory": "2863325848", "ephemeral-storage": "90Gi"},
			by:   []string{"ephemeral-storage - evictionHard 10Gi (nodefs.available 10%)", "memory - evictionHard 1431641448 (memory.available 33.333%)"},
		},
		{name: "0% and 100% are no thresholds", in: input{capacity: "memory=4Gi,ephemeral-storage=1Gi", memory: "0%", nodefs: "100%"}, want: map[string]string{"memory": "4Gi", "ephemeral-storage": "1Gi"}},
		{name: "exactly all is reserved", in: input{capacity: "cpu=2", kube: "cpu=1", system: "cpu=1"}, want: map[string]string{"cpu": "0"}, by: []string{"cpu - kubeReserved 1", "cpu - systemReserved 1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			capacity := list(t, tt.in.capacity)
			result, err := Compute(capacity, tt.in.reserved(t))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, text(result.Allocatable)); diff != "" {
				t.Errorf("allocatable (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.by, termTexts(result.Terms)); diff != "" {
				t.Errorf("terms (-want +got):\n%s", diff)
			}
			delete(capacity, PID)
			if diff := cmp.Diff(text(capacity), text(result.Capacity)); diff != "" {
				t.Errorf("capacity (-want +got):\n%s", diff)
			}
		})
	}
}

func TestComputeGivesTheSameForAShareAndItsAmount(t *testing.T) {
	in := input{
		capacity: "cpu=8,memory=16Gi,ephemeral-storage=200Gi,pods=110",
		kube:     "cpu=250m,memory=1Gi,ephemeral-storage=2Gi", system: "cpu=250m,memory=512Mi,ephemeral-storage=1Gi",
		memory: "2Gi", nodefs: "25Gi",
	}
	result, err := Compute(list(t, in.capacity), in.reserved(t))
	if err != nil {
		t.Fatal(err)
	}
	memory, storage := result.Allocatable[corev1.ResourceMemory], result.Allocatable[corev1.ResourceEphemeralStorage]
	if memory.Value() != 13421772800 || storage.Value() != 184683593728 {
		t.Errorf("memory %d, ephemeral-storage %d", memory.Value(), storage.Value())
	}
}

func TestComputeNamesWhatDoesNotFit(t *testing.T) {
	tests := []struct {
		name, want string
		in         input
		left       map[string]string
	}{
		{
			name: "memory by three terms", in: input{capacity: "cpu=2,memory=1Gi", kube: "memory=800Mi", system: "memory=200Mi", memory: "100Mi"},
			want: "memory: the capacity of 1Gi is less than what is kept of it: kubeReserved 800Mi + systemReserved 200Mi + evictionHard 100Mi (memory.available 100Mi); reserve less",
			left: map[string]string{"cpu": "2", "memory": "0"},
		},
		{
			name: "huge pages are not to blame", in: input{capacity: "memory=4Gi,hugepages-1Gi=4Gi", kube: "memory=4Gi", memory: "100Mi"},
			want: "memory: the capacity of 4Gi is less than what is kept of it: kubeReserved 4Gi + evictionHard 100Mi (memory.available 100Mi); reserve less",
			left: map[string]string{"memory": "0", "hugepages-1Gi": "4Gi"},
		},
		{
			name: "more unhealthy devices than there are", in: input{capacity: "example.com/x=1,example.com/y=1", unhealthy: "example.com/x=2,example.com/y=1"},
			want: "unhealthy devices: example.com/x: is 2, more than the 1 of the capacity, which counts healthy and unhealthy devices; none is offered",
			left: map[string]string{"example.com/x": "0", "example.com/y": "0"},
		},
		{
			name: "two resources", in: input{capacity: "cpu=1,ephemeral-storage=1Gi", cpus: 2, nodefs: "2Gi"},
			want: "cpu: the capacity of 1 is less than what is kept of it: reservedSystemCPUs 2; reserve less\n" +
				"ephemeral-storage: the capacity of 1Gi is less than what is kept of it: evictionHard 2Gi (nodefs.available 2Gi); reserve less",
			left: map[string]string{"cpu": "0", "ephemeral-storage": "0"},
		},
		{
			name: "a resource that cannot be reserved", in: input{capacity: "pods=110,hugepages-2Mi=4Mi", kube: "pods=10", system: "hugepages-2Mi=2Mi"},
			want: "kubeReserved: pods: cannot be reserved; what can is cpu, memory, ephemeral-storage and pid\n" +
				"systemReserved: hugepages-2Mi: cannot be reserved; what can is cpu, memory, ephemeral-storage and pid",
			left: map[string]string{"pods": "110", "hugepages-2Mi": "4Mi"},
		},
		{
			name: "negative amounts", in: input{capacity: "cpu=-1,memory=1Gi,example.com/x=1", kube: "memory=-1Gi", cpus: -1, unhealthy: "example.com/x=-1"},
			want: "kubeReserved: memory: is -1Gi, must not be negative\nreservedSystemCPUs: cpu: is -1 CPUs, must not be negative\n" +
				"unhealthy devices: example.com/x: is -1, must not be negative\ncapacity: cpu: is -1, must not be negative; it is taken for 0",
			left: map[string]string{"cpu": "0", "memory": "1Gi", "example.com/x": "1"},
		},
		{
			name: "devices of no capacity and of no domain", in: input{capacity: "cpu=1", unhealthy: "cpu=1,example.com/x=1"},
			want: "unhealthy devices: cpu: is no extended resource\nunhealthy devices: example.com/x: is not in the capacity, which counts healthy and unhealthy devices",
			left: map[string]string{"cpu": "1"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			result, err := Compute(list(t, tt.in.capacity), tt.in.reserved(t))
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.left, text(result.Allocatable)); diff != "" {
				t.Errorf("allocatable (-want +got):\n%s", diff)
			}
		})
	}
}

func TestShortageErrorCanBeFound(t *testing.T) {
	_, err := Compute(list(t, "memory=1Gi"), Reserved{Kube: list(t, "memory=2Gi,pods=1")})
	shortage, ok := errors.AsType[*ShortageError](err)
	if !ok || shortage.Resource != corev1.ResourceMemory || len(shortage.Terms) != 1 {
		t.Errorf("error %v", err)
	}
}

func TestTermsForUnknownCapacityAreUnused(t *testing.T) {
	in := input{capacity: "cpu=4", kube: "memory=1Gi,pid=100", nodefs: "1Gi", memory: "10%"}
	result, err := Compute(list(t, in.capacity), in.reserved(t))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"memory - kubeReserved 1Gi", "pid - kubeReserved 100", "ephemeral-storage - evictionHard 1Gi (nodefs.available 1Gi)"}
	if diff := cmp.Diff(want, termTexts(result.Unused)); diff != "" {
		t.Errorf("unused terms (-want +got):\n%s", diff)
	}
}

func TestPodsLimitLeavesEvictionOut(t *testing.T) {
	in := input{capacity: "cpu=4,memory=4Gi,pid=1000,hugepages-2Mi=2Mi", kube: "memory=1Gi,pid=200", cpus: 1, memory: "1Gi"}
	result, err := Compute(list(t, in.capacity), in.reserved(t))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"cpu": "3", "memory": "3Gi", "pid": "800", "hugepages-2Mi": "2Mi"}
	if diff := cmp.Diff(want, text(result.PodsLimit())); diff != "" {
		t.Errorf("limit (-want +got):\n%s", diff)
	}
}

func TestComputeLeavesItsArgumentsAlone(t *testing.T) {
	capacity, kube := list(t, "memory=4Gi"), list(t, "memory=1500m")
	result, err := Compute(capacity, Reserved{Kube: kube})
	if err != nil {
		t.Fatal(err)
	}
	q := result.Capacity[corev1.ResourceMemory]
	q.Set(7)
	result.Capacity[corev1.ResourceMemory] = q
	if diff := cmp.Diff(map[string]string{"memory": "4Gi"}, text(capacity)); diff != "" {
		t.Errorf("capacity (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"memory": "1500m"}, text(kube)); diff != "" {
		t.Errorf("reservation (-want +got):\n%s", diff)
	}
}

func TestResultAsJSON(t *testing.T) {
	result, err := Compute(list(t, "memory=4Gi,pid=10"), Reserved{Kube: list(t, "memory=1Gi,cpu=1"), MemoryAvailable: threshold(t, "10%")})
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"capacity":{"memory":"4Gi"},"allocatable":{"memory":"2791728743"},"terms":[` +
		`{"resource":"memory","cause":"kubeReserved","amount":"1Gi"},` +
		`{"resource":"memory","cause":"evictionHard","amount":"429496729","detail":"memory.available 10%"}],` +
		`"unused":[{"resource":"cpu","cause":"kubeReserved","amount":"1"}],"pids":"10"}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
	if got := Cause(99).String(); got != "cause 99" {
		t.Errorf("unknown cause is %q", got)
	}
}

func BenchmarkCompute(b *testing.B) {
	in := input{
		capacity: "cpu=8,memory=16Gi,ephemeral-storage=200Gi,pods=110,hugepages-2Mi=0,hugepages-1Gi=0",
		kube:     "cpu=250m,memory=1Gi,ephemeral-storage=2Gi", system: "cpu=250m,memory=512Mi", memory: "12.5%", nodefs: "10%",
	}
	capacity, reserved := list(b, in.capacity), in.reserved(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compute(capacity, reserved); err != nil {
			b.Fatal(err)
		}
	}
}
