package pinning

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/allocatable/topology"
)

// BenchmarkAdmit admits 110 pods of two CPUs on a machine of 256 CPUs in 8 NUMA nodes, with
// hints of CPUs and memory, and releases them.
func BenchmarkAdmit(b *testing.B) {
	shape := stockShape{Sockets: 2, Nodes: 8, Cores: 128, Threads: 2, Caches: 16}
	var nodes []topology.Node
	var memory []MemoryNode
	for id := range shape.Nodes {
		nodes = append(nodes, topology.Node{ID: id})
		n := twoNodes()[0]
		n.ID, n.Memory = id, 64<<30
		memory = append(memory, n)
	}
	machine, err := topology.NewMachine(nodes)
	if err != nil {
		b.Fatal(err)
	}
	mem, err := NewMemory(MemoryConfig{Policy: Static, Nodes: memory, Class: guaranteed})
	if err != nil {
		b.Fatal(err)
	}
	m, err := topology.New(topology.Config{
		Machine: machine, Policy: topology.Restricted,
		Providers: []topology.Provider{newCPUs(b, CPUConfig{Reserve: 2}, shape), mem},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		for i := range 110 {
			if err := m.Admit(b.Context(), podOf(types.UID(fmt.Sprint(i)), "main:2")); err != nil {
				b.Fatal(err)
			}
		}
		for i := range 110 {
			m.Release(types.UID(fmt.Sprint(i)))
		}
	}
}
