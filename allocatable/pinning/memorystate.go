package pinning

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/allocatable/topology"
)

// Block is memory of one kind that was given to a container.
type Block struct {
	// Nodes are the NUMA nodes that it is on.
	Nodes topology.Nodes
	// Type is memory, or huge pages of one size.
	Type corev1.ResourceName
	// Size is in bytes. Of a container that ends before others start it is what these do
	// not use again.
	Size uint64
}

// table counts the memory of one kind on one NUMA node, in bytes. Allocatable is Total
// without what the system keeps; it is Reserved for containers and Free.
type table struct {
	Total       uint64 `json:"total"`
	System      uint64 `json:"systemReserved"`
	Allocatable uint64 `json:"allocatable"`
	Reserved    uint64 `json:"reserved"`
	Free        uint64 `json:"free"`
}

// memoryNode is a NUMA node as the memory manager sees it.
type memoryNode struct {
	// assignments counts the blocks that are on it.
	assignments int
	tables      map[corev1.ResourceName]*table
	// group are the nodes that blocks on this one are on: it alone, or always the same
	// ones together.
	group topology.Nodes
}

// memoryState is who has which memory.
type memoryState struct {
	nodes map[int]*memoryNode
	given map[types.UID]map[string][]Block
}

func (s *memoryState) clone() memoryState {
	out := memoryState{nodes: make(map[int]*memoryNode, len(s.nodes)), given: make(map[types.UID]map[string][]Block, len(s.given))}
	for id, n := range s.nodes {
		c := &memoryNode{assignments: n.assignments, group: n.group, tables: make(map[corev1.ResourceName]*table, len(n.tables))}
		for name, t := range n.tables {
			own := *t
			c.tables[name] = &own
		}
		out.nodes[id] = c
	}
	for uid, containers := range s.given {
		own := make(map[string][]Block, len(containers))
		for name, blocks := range containers {
			own[name] = slices.Clone(blocks)
		}
		out.given[uid] = own
	}
	return out
}

// table returns that of one kind of memory on a node; an empty one if there is none.
func (s *memoryState) table(node int, name corev1.ResourceName) *table {
	if n := s.nodes[node]; n != nil && n.tables[name] != nil {
		return n.tables[name]
	}
	return &table{}
}

// all returns the nodes that there are.
func (s *memoryState) all() topology.Nodes {
	n, _ := topology.NodesOf(slices.Collect(maps.Keys(s.nodes))...) // they were checked
	return n
}

// reserve takes memory from nodes, from the first ones as far as it is there, and returns
// how much is missing.
func (s *memoryState) reserve(nodes topology.Nodes, name corev1.ResourceName, size uint64) (missing uint64) {
	for id := range nodes.All() {
		n := s.nodes[id]
		n.assignments++
		n.group = nodes
		t := s.table(id, name)
		take := min(size, t.Free)
		t.Free -= take
		t.Reserved += take
		size -= take
	}
	return size
}

// release gives back the blocks of a container.
func (s *memoryState) release(uid types.UID, container string) {
	for _, b := range s.given[uid][container] {
		left := b.Size
		for id := range b.Nodes.All() {
			n := s.nodes[id]
			if n == nil {
				continue
			}
			if n.assignments--; n.assignments <= 0 {
				n.assignments, n.group = 0, 1<<id
			}
			t := s.table(id, b.Type)
			back := min(left, t.Reserved)
			t.Reserved -= back
			t.Free += back
			left -= back
		}
	}
	delete(s.given[uid], container)
	if len(s.given[uid]) == 0 {
		delete(s.given, uid)
	}
}

// releasePod gives back all that a pod has.
func (s *memoryState) releasePod(uid types.UID) {
	for _, name := range slices.Sorted(maps.Keys(s.given[uid])) {
		s.release(uid, name)
	}
}

// sameMachine compares two states: what each node has and keeps, and what is reserved and
// free on nodes that blocks are on together.
func (s *memoryState) sameMachine(other *memoryState) error {
	if len(s.nodes) != len(other.nodes) {
		return fmt.Errorf("it is about %d NUMA nodes, there are %d", len(s.nodes), len(other.nodes))
	}
	for id, n := range s.nodes {
		m := other.nodes[id]
		switch {
		case m == nil:
			return fmt.Errorf("it is about NUMA node %d, which is not there", id)
		case n.assignments != m.assignments || n.group != m.group || len(n.tables) != len(m.tables):
			return fmt.Errorf("NUMA node %d has %d blocks, %d kinds of memory, together with %s; want %d, %d, %s",
				id, n.assignments, len(n.tables), n.group, m.assignments, len(m.tables), m.group)
		}
		for name, t := range n.tables {
			u := m.tables[name]
			if u == nil || t.Total != u.Total || t.System != u.System || t.Allocatable != u.Allocatable {
				return fmt.Errorf("%s of NUMA node %d is %+v, want %+v", name, id, *t, u)
			}
			free, reserved := s.sum(n.group, name)
			if wantFree, wantReserved := other.sum(n.group, name); free != wantFree || reserved != wantReserved {
				return fmt.Errorf("%s of NUMA nodes %s is %d free and %d reserved, want %d and %d", name, n.group, free, reserved, wantFree, wantReserved)
			}
		}
	}
	return nil
}

func (s *memoryState) sum(nodes topology.Nodes, name corev1.ResourceName) (free, reserved uint64) {
	for id := range nodes.All() {
		t := s.table(id, name)
		free += t.Free
		reserved += t.Reserved
	}
	return free, reserved
}

// replay reserves the blocks of given on a machine where nobody has any.
func (s *memoryState) replay(given map[types.UID]map[string][]Block) error {
	for _, uid := range slices.Sorted(maps.Keys(given)) {
		for _, name := range slices.Sorted(maps.Keys(given[uid])) {
			for _, b := range given[uid][name] {
				if b.Nodes == 0 || b.Nodes&^s.all() != 0 {
					return fmt.Errorf("container %s of pod %s has memory on NUMA nodes %s, there are %s", name, uid, b.Nodes, s.all())
				}
				for id := range b.Nodes.All() {
					if s.nodes[id].tables[b.Type] == nil {
						return fmt.Errorf("container %s of pod %s has %s, which NUMA node %d has not", name, uid, b.Type, id)
					}
				}
				if missing := s.reserve(b.Nodes, b.Type, b.Size); missing > 0 {
					return fmt.Errorf("container %s of pod %s has %d bytes of %s on NUMA nodes %s, of which %d are not there", name, uid, b.Size, b.Type, b.Nodes, missing)
				}
			}
		}
	}
	s.given = given
	return nil
}

// MemoryNode is the memory of a NUMA node.
type MemoryNode struct {
	ID int
	// Memory is in bytes, huge pages included.
	Memory uint64
	// HugePages are the bytes in pages of each size, by their resource.
	HugePages map[corev1.ResourceName]uint64
	// Reserved is what of each kind is kept from containers.
	Reserved map[corev1.ResourceName]uint64
}

// newMemoryState returns the state in which nobody has any memory.
func newMemoryState(nodes []MemoryNode) (memoryState, error) {
	s := memoryState{nodes: map[int]*memoryNode{}, given: map[types.UID]map[string][]Block{}}
	if len(nodes) == 0 {
		return s, errors.New("the machine has no NUMA node; one stands for a machine without NUMA")
	}
	for _, n := range slices.SortedFunc(slices.Values(nodes), func(a, b MemoryNode) int { return cmp.Compare(a.ID, b.ID) }) {
		if n.ID < 0 || n.ID > topology.MaxNode || s.nodes[n.ID] != nil {
			return s, fmt.Errorf("NUMA node %d: want each once, from 0 to %d", n.ID, topology.MaxNode)
		}
		node := &memoryNode{tables: map[corev1.ResourceName]*table{}, group: 1 << n.ID}
		var pages uint64
		for name, size := range n.HugePages {
			pages += size
			if n.Reserved[name] > size {
				return s, fmt.Errorf("NUMA node %d has %d of %s, less than the %d reserved", n.ID, size, name, n.Reserved[name])
			}
			node.tables[name] = newTable(size, n.Reserved[name], 0)
		}
		kept := n.Reserved[corev1.ResourceMemory]
		if pages > n.Memory || kept > n.Memory-pages {
			return s, fmt.Errorf("NUMA node %d has %d bytes of memory, less than %d in huge pages and %d reserved", n.ID, n.Memory, pages, kept)
		}
		node.tables[corev1.ResourceMemory] = newTable(n.Memory, kept, pages)
		s.nodes[n.ID] = node
	}
	return s, nil
}

func newTable(total, system, pages uint64) *table {
	left := total - system - pages
	return &table{Total: total, System: system, Allocatable: left, Free: left}
}
