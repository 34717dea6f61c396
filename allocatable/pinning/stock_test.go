package pinning

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/allocatable/internal/order"
	"github.com/nodekit-go/nodekit/allocatable/topology"
)

// The files in testdata are what the kubelet 1.37.2 decided on machines of several shapes,
// one history of pods a line: testdata/README.md.
var (
	stockCPUs   = flag.String("stock-cpus", "testdata/stock-cpus.jsonl.gz", "histories of CPUs to compare with")
	stockMemory = flag.String("stock-memory", "testdata/stock-memory.jsonl.gz", "histories of memory to compare with")
)

// stockShape is the shape of a machine.
type stockShape struct {
	Name                                   string
	Sockets, Nodes, Cores, Threads, Caches int
	Interleaved                            bool
}

func (s stockShape) layout(tb testing.TB) *Layout {
	tb.Helper()
	var cpus []CPU
	for core := range s.Cores {
		at := func(n int) int {
			if s.Interleaved {
				return core % n
			}
			return core * n / s.Cores
		}
		for thread := range s.Threads {
			cpus = append(cpus, CPU{ID: core + thread*s.Cores, Core: core, Socket: at(s.Sockets), Node: at(s.Nodes), Cache: at(s.Caches)})
		}
	}
	l, err := NewLayout(cpus)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// stockHistory is what happened on a machine.
type stockHistory struct {
	Shape    stockShape
	Options  map[string]string
	Reserved string
	Memory   []struct{ Memory, Huge, Reserved uint64 }
	Ops      []stockOp
	File     json.RawMessage
}

// stockOp is a pod that came, with the nodes it was to get, or went.
type stockOp struct {
	Pod        types.UID
	Free       bool
	Nodes      []int
	Preferred  bool
	PodHints   string
	Containers []stockContainer
	Shared     string
}

// stockContainer is what a container asked for, and what became of it.
type stockContainer struct {
	Kind, CPU, Mem, Huge string
	Hints, Got, Err      string
}

func (o *stockOp) pod() *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Name, pod.UID = string(o.Pod), o.Pod
	always := corev1.ContainerRestartPolicyAlways
	for i, c := range o.Containers {
		list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(c.CPU), corev1.ResourceMemory: resource.MustParse("1Gi")}
		if c.Mem != "" {
			list[corev1.ResourceMemory] = resource.MustParse(c.Mem)
		}
		if c.Huge != "" {
			list["hugepages-2Mi"] = resource.MustParse(c.Huge)
		}
		container := corev1.Container{Name: fmt.Sprint("c", i), Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}
		switch c.Kind {
		case "side":
			container.RestartPolicy = &always
			fallthrough
		case "init":
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, container)
		default:
			pod.Spec.Containers = append(pod.Spec.Containers, container)
		}
	}
	return pod
}

// hint returns the nodes that the pod was to get.
func (o *stockOp) hint(t *testing.T) topology.Hint {
	t.Helper()
	n, err := topology.NodesOf(o.Nodes...)
	if err != nil {
		t.Fatal(err)
	}
	return topology.Hint{Nodes: n, Preferred: o.Preferred}
}

func readStock(t *testing.T, path string) []stockHistory {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	var out []stockHistory
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var h stockHistory
		if err := json.Unmarshal(lines.Bytes(), &h); err != nil {
			t.Fatal(err)
		}
		out = append(out, h)
	}
	if err := lines.Err(); err != nil || len(out) == 0 {
		t.Fatalf("%d histories, %v", len(out), err)
	}
	return out
}

func guaranteed(*corev1.Pod) corev1.PodQOSClass { return corev1.PodQOSGuaranteed }

// hintText prints the hints for a resource as the histories have them.
func hintText(hints topology.Hints, name string) string {
	list, ok := hints[name]
	if !ok {
		return "-"
	}
	texts := make([]string, len(list))
	for i, h := range list {
		texts[i] = h.String()
	}
	return strings.Join(texts, "|")
}

func TestCPUsAreThoseOfTheKubelet(t *testing.T) {
	for i, h := range readStock(t, *stockCPUs) {
		t.Run(fmt.Sprint(i), func(t *testing.T) { replayCPUs(t, &h) })
	}
}

func replayCPUs(t *testing.T, h *stockHistory) {
	t.Helper()
	options, err := ParseCPUOptions(h.Options)
	if err != nil {
		t.Fatal(err)
	}
	reserved, err := ParseCPUSet(h.Reserved)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCPUs(CPUConfig{Policy: Static, Layout: h.Shape.layout(t), Reserve: reserved.Len(), Options: options, Class: guaranteed})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(h.Reserved, c.reserved.String()); diff != "" {
		t.Fatalf("reserved (-want +got):\n%s", diff)
	}
	for i := range h.Ops {
		want := h.Ops[i]
		got := want
		got.Containers = nil
		if want.Free {
			c.Release(want.Pod)
		} else {
			cameCPUs(t, c, &want, &got)
		}
		got.Shared = c.state.shared.String()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s with %v, step %d (-want +got):\n%s", h.Shape.Name, h.Options, i, diff)
		}
	}
	checkFile(t, h.File, func() ([]byte, error) { return formatCPUState("static", &c.state) })
}

// cameCPUs has a pod come, and notes what becomes of it.
func cameCPUs(t *testing.T, c *CPUs, want, got *stockOp) {
	t.Helper()
	pod := want.pod()
	got.PodHints = hintText(c.Hints(topology.Request{Pod: pod}), "cpu")
	for i, s := range order.Of(pod) {
		r := topology.Request{Pod: pod, Container: s.Container}
		w := want.Containers[i]
		one := stockContainer{Kind: w.Kind, CPU: w.CPU, Hints: hintText(c.Hints(r), "cpu")}
		err := c.Allocate(t.Context(), r, want.hint(t))
		one.Got = c.Exclusive(want.Pod, s.Name).String()
		if err != nil {
			one.Err = err.Error()
		}
		got.Containers = append(got.Containers, one)
		if err != nil {
			c.Release(want.Pod)
			want.Containers = want.Containers[:i+1]
			return
		}
	}
}

func TestMemoryIsThatOfTheKubelet(t *testing.T) {
	for i, h := range readStock(t, *stockMemory) {
		t.Run(fmt.Sprint(i), func(t *testing.T) { replayMemory(t, &h) })
	}
}

func replayMemory(t *testing.T, h *stockHistory) {
	t.Helper()
	m, err := NewMemory(MemoryConfig{Policy: Static, Nodes: h.nodes(), Class: guaranteed})
	if err != nil {
		t.Fatal(err)
	}
	for i := range h.Ops {
		want := h.Ops[i]
		got := want
		got.Containers = nil
		if want.Free {
			m.Release(want.Pod)
		} else {
			cameMemory(t, m, &want, &got)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s, step %d (-want +got):\n%s", h.Shape.Name, i, diff)
		}
	}
	checkFile(t, h.File, func() ([]byte, error) { return formatMemoryState("Static", &m.state) })
}

func (h *stockHistory) nodes() []MemoryNode {
	var nodes []MemoryNode
	for i, n := range h.Memory {
		nodes = append(nodes, MemoryNode{
			ID: i, Memory: n.Memory, HugePages: map[corev1.ResourceName]uint64{"hugepages-2Mi": n.Huge << 21},
			Reserved: map[corev1.ResourceName]uint64{corev1.ResourceMemory: n.Reserved},
		})
	}
	return nodes
}

// cameMemory has a pod come, and notes what becomes of it.
func cameMemory(t *testing.T, m *Memory, want, got *stockOp) {
	t.Helper()
	pod := want.pod()
	if got.PodHints = hintText(m.Hints(topology.Request{Pod: pod}), "memory"); initsAlone(want) {
		want.PodHints = got.PodHints // the kubelet does not count it
	}
	for i, s := range order.Of(pod) {
		r := topology.Request{Pod: pod, Container: s.Container}
		w := want.Containers[i]
		one := stockContainer{Kind: w.Kind, CPU: w.CPU, Mem: w.Mem, Huge: w.Huge, Hints: hintText(m.Hints(r), "memory")}
		err := m.Allocate(t.Context(), r, want.hint(t))
		if n := m.Of(want.Pod, s.Name); n != 0 {
			one.Got = n.String()
		}
		if err != nil {
			one.Err = err.Error()
		}
		got.Containers = append(got.Containers, one)
		if err != nil {
			m.Release(want.Pod)
			want.Containers = want.Containers[:i+1]
			return
		}
	}
}

// initsAlone reports whether only init containers ask for huge pages.
func initsAlone(o *stockOp) bool {
	inits, regular := false, false
	for _, c := range o.Containers {
		inits = inits || c.Kind != "main" && c.Huge != ""
		regular = regular || c.Kind == "main" && c.Huge != ""
	}
	return inits && !regular
}

// checkFile compares a state file with the kubelet's, but for the order of blocks.
func checkFile(t *testing.T, want []byte, format func() ([]byte, error)) {
	t.Helper()
	got, err := format()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(document(t, want), document(t, got)); diff != "" {
		t.Errorf("file (-want +got):\n%s", diff)
	}
}

// document reads a state file without its checksums and without the text, which has the
// same again.
func document(t *testing.T, raw []byte) map[string]any {
	t.Helper()
	var d map[string]any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&d); err != nil {
		t.Fatal(err)
	}
	delete(d, "checksum")
	delete(d, "data")
	delete(d, "dataChecksum")
	sortBlocks(d["entries"])
	return d
}

// sortBlocks sorts the memory blocks of each container by their type.
func sortBlocks(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, one := range v {
			sortBlocks(one)
		}
	case []any:
		slices.SortFunc(v, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
}
