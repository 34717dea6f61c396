package topology

import (
	"cmp"
	"fmt"
	"slices"
)

// Node is a NUMA node of a machine.
type Node struct {
	ID int
	// Distances tell how far the nodes of the machine are, in the order of their numbers;
	// 10 is here (https://docs.kernel.org/admin-guide/mm/numaperf.html). nil: unknown.
	Distances []int
}

// Machine has NUMA nodes. The zero value has none, and everything suits it.
type Machine struct {
	nodes     Nodes
	distances [MaxNode + 1]map[int]int
	measured  bool
}

// NewMachine returns a machine with these nodes, in any order. Numbers that are used
// twice or are beyond [MaxNode] are an error.
func NewMachine(nodes []Node) (Machine, error) {
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	m := Machine{measured: true}
	for _, n := range nodes {
		one, err := NodesOf(n.ID)
		if err != nil {
			return Machine{}, err
		}
		if m.nodes&one != 0 {
			return Machine{}, fmt.Errorf("NUMA node %d is named twice", n.ID)
		}
		m.nodes |= one
		if len(n.Distances) != len(nodes) {
			m.measured = false
			continue
		}
		m.distances[n.ID] = map[int]int{}
		for i, d := range n.Distances {
			m.distances[n.ID][nodes[i].ID] = d
		}
	}
	return m, nil
}

// Nodes returns all nodes of the machine.
func (m Machine) Nodes() Nodes { return m.nodes }

// distance returns how far the nodes of a set are from one another, on average.
func (m Machine) distance(n Nodes) float64 {
	if n == 0 {
		return 0
	}
	sum := 0
	for a := range n.All() {
		for b := range n.All() {
			sum += m.distances[a][b]
		}
	}
	return float64(sum) / float64(n.Len()*n.Len())
}

// closer reports whether a suits better than b: of sets of one size the one whose nodes
// are closer to one another.
func (m Machine) closer(a, b Nodes) bool {
	if a.Len() != b.Len() {
		return a.Narrower(b)
	}
	if x, y := m.distance(a), m.distance(b); x != y {
		return x < y
	}
	return a < b
}
