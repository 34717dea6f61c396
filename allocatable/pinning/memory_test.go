package pinning

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/allocatable/topology"
)

// twoNodes have 1 GiB each, of which 100 MiB are reserved and 64 MiB are huge pages.
func twoNodes() []MemoryNode {
	var nodes []MemoryNode
	for id := range 2 {
		nodes = append(nodes, MemoryNode{
			ID: id, Memory: 1 << 30, HugePages: map[corev1.ResourceName]uint64{"hugepages-2Mi": 64 << 20},
			Reserved: map[corev1.ResourceName]uint64{corev1.ResourceMemory: 100 << 20},
		})
	}
	return nodes
}

func newMemory(tb testing.TB, file string) *Memory {
	tb.Helper()
	m, err := NewMemory(MemoryConfig{Policy: Static, Nodes: twoNodes(), Class: guaranteed, File: file})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// memoryPod has one container with so much memory after init containers with as much.
func memoryPod(uid types.UID, memory string, inits ...string) *corev1.Pod {
	o := stockOp{Pod: uid}
	for _, mem := range inits {
		o.Containers = append(o.Containers, stockContainer{Kind: "init", CPU: "1", Mem: mem})
	}
	o.Containers = append(o.Containers, stockContainer{Kind: "main", CPU: "1", Mem: memory})
	return o.pod()
}

// free returns the memory that is left on each node, in MiB.
func free(m *Memory) [2]uint64 {
	return [2]uint64{m.state.table(0, "memory").Free >> 20, m.state.table(1, "memory").Free >> 20}
}

func TestMemoryOfPods(t *testing.T) {
	m := newMemory(t, "")
	steps := []struct {
		name   string
		pod    *corev1.Pod
		gone   types.UID
		nodes  string
		free   [2]uint64
		reason string
	}{
		{name: "the first node", pod: memoryPod("u1", "500Mi"), nodes: "0", free: [2]uint64{360, 860}},
		{name: "the second one", pod: memoryPod("u2", "500Mi"), nodes: "1", free: [2]uint64{360, 360}},
		{name: "both serve others", pod: memoryPod("u3", "600Mi"), nodes: "any", free: [2]uint64{360, 360}, reason: "UnexpectedAdmissionError"},
		{name: "one goes", gone: "u1", free: [2]uint64{860, 360}},
		{name: "another goes", gone: "u2", free: [2]uint64{860, 860}},
		{name: "both nodes", pod: memoryPod("u4", "1000Mi"), nodes: "0,1", free: [2]uint64{0, 720}},
		{name: "no node by itself any more", pod: memoryPod("u5", "100Mi"), nodes: "0,1", free: [2]uint64{0, 620}},
		{name: "all go", gone: "u4", free: [2]uint64{860, 760}},
		{name: "the last", gone: "u5", free: [2]uint64{860, 860}},
		{name: "an init container's is used again", pod: memoryPod("u6", "300Mi", "400Mi"), nodes: "0", free: [2]uint64{460, 860}},
	}
	for _, s := range steps {
		got := ""
		if s.gone != "" {
			m.Release(s.gone)
		} else {
			if err := admit(t, m, s.pod); err != nil {
				got, _ = topology.Reason(err)
			}
			last := s.pod.Spec.Containers[0].Name
			if nodes := m.Of(s.pod.UID, last); nodes.String() != s.nodes {
				t.Fatalf("%s: nodes %s, want %s", s.name, nodes, s.nodes)
			}
		}
		if got != s.reason || free(m) != s.free {
			t.Fatalf("%s: reason %q, %d MiB free; want %q, %d", s.name, got, free(m), s.reason, s.free)
		}
	}
	m.Starts(memoryPod("u6", "300Mi", "400Mi"), "c1")
	if got := free(m); got != [2]uint64{560, 860} {
		t.Errorf("after the init container has ended %d MiB are free", got)
	}
}

// TestEphemeralContainerFreesNoMemory has one start beside an init container that runs.
func TestEphemeralContainerFreesNoMemory(t *testing.T) {
	m := newMemory(t, "")
	pod := memoryPod("u1", "300Mi", "400Mi")
	if err := admit(t, m, pod); err != nil {
		t.Fatal(err)
	}
	m.Starts(pod, "debugger")
	if m.Of("u1", "c0") == 0 {
		t.Error("the init container has no memory any more")
	}
	m.Starts(pod, "c1")
	if m.Of("u1", "c0") != 0 {
		t.Error("the init container has memory although the next one starts")
	}
}

func TestMemorySurvivesARestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), MemoryFile)
	m := newMemory(t, file)
	pod := memoryPod("u1", "500Mi")
	if err := admit(t, m, pod); err != nil {
		t.Fatal(err)
	}
	again := newMemory(t, file)
	if diff := cmp.Diff(m.Blocks("u1", "c0"), again.Blocks("u1", "c0")); diff != "" || free(again) != free(m) {
		t.Errorf("after a restart (-before +after):\n%s", diff)
	}
	if err := admit(t, again, pod); err != nil || free(again) != free(m) {
		t.Errorf("admitted again: %v, %d MiB free", err, free(again))
	}
	again.Retain(func(types.UID) bool { return false })
	if free(again) != [2]uint64{860, 860} {
		t.Errorf("%d MiB free after all have gone", free(again))
	}
	want := []Block{
		{Nodes: 1, Type: "hugepages-2Mi", Size: 64 << 20},
		{Nodes: 1, Type: "memory", Size: 860 << 20},
		{Nodes: 2, Type: "hugepages-2Mi", Size: 64 << 20},
		{Nodes: 2, Type: "memory", Size: 860 << 20},
	}
	if diff := cmp.Diff(want, again.Allocatable()); diff != "" {
		t.Errorf("allocatable (-want +got):\n%s", diff)
	}
}

func TestNewMemoryRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), MemoryFile)
	if err := admit(t, newMemory(t, file), memoryPod("u1", "500Mi")); err != nil {
		t.Fatal(err)
	}
	smaller := twoNodes()
	smaller[0].Memory = 600 << 20
	tests := []struct {
		name string
		cfg  MemoryConfig
		want string
	}{
		{name: "no nodes", cfg: MemoryConfig{Policy: Static}, want: "memory manager: the machine has no NUMA node; one stands for a machine without NUMA"},
		{name: "nothing reserved", cfg: MemoryConfig{Policy: Static, Nodes: []MemoryNode{{Memory: 1}}}, want: "memory manager: the static policy needs memory that is reserved; set reservedMemory"},
		{
			name: "more reserved than there is", want: "memory manager: NUMA node 0 has 1 bytes of memory, less than 0 in huge pages and 2 reserved",
			cfg: MemoryConfig{Policy: Static, Nodes: []MemoryNode{{Memory: 1, Reserved: map[corev1.ResourceName]uint64{"memory": 2}}}},
		},
		{name: "another policy", cfg: MemoryConfig{File: file}, want: "memory manager: " + useless(file, errText(`it was written under policy "Static", the configuration says "None"`)).Error()},
		{
			name: "another machine", cfg: MemoryConfig{Policy: Static, Nodes: smaller, File: file},
			want: "memory manager: " + useless(file, errText("container c0 of pod u1 has 524288000 bytes of memory on NUMA nodes 0, of which 67108864 are not there")).Error(),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := tt.cfg
			cfg.Class = guaranteed
			_, err := NewMemory(cfg)
			if diff := cmp.Diff(tt.want, errorText(err)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMemoryOfAMachineThatHasChanged: huge pages that were made since are no reason not to
// start, as long as each container has what it had.
func TestMemoryOfAMachineThatHasChanged(t *testing.T) {
	file := filepath.Join(t.TempDir(), MemoryFile)
	if err := admit(t, newMemory(t, file), memoryPod("u1", "500Mi")); err != nil {
		t.Fatal(err)
	}
	nodes := twoNodes()
	nodes[0].HugePages["hugepages-2Mi"], nodes[1].Memory = 96<<20, 2<<30
	for range 2 { // the second one reads what the first has written
		m, err := NewMemory(MemoryConfig{Policy: Static, Nodes: nodes, Class: guaranteed, File: file})
		if err != nil {
			t.Fatal(err)
		}
		if m.Of("u1", "c0") != 1 || free(m) != [2]uint64{328, 1884} {
			t.Errorf("the container has memory of %s, %d MiB are free", m.Of("u1", "c0"), free(m))
		}
	}
}

func TestMemoryWithoutAPolicy(t *testing.T) {
	m, err := NewMemory(MemoryConfig{File: filepath.Join(t.TempDir(), MemoryFile)})
	if err != nil {
		t.Fatal(err)
	}
	pod := memoryPod("u1", "500Mi", "100Mi")
	if err := admit(t, m, pod); err != nil {
		t.Fatal(err)
	}
	m.Starts(pod, "c1")
	m.Release("u1")
	if m.Of("u1", "c0") != 0 || m.Allocatable() != nil || m.Hints(topology.Request{Pod: pod}) != nil {
		t.Error("memory is given without a policy")
	}
}
