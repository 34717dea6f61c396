package pinning

import (
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/allocatable/internal/order"
	"github.com/nodekit-go/nodekit/allocatable/topology"
)

// hints returns the sets of NUMA nodes that have enough of all kinds of memory. Preferred
// are the smallest that could have enough on an idle machine.
//
// Blocks on several nodes are only ever on nodes on which all blocks are on the same ones:
// a node serves containers by itself, or always together with the same others
// (https://kubernetes.io/docs/concepts/policy/node-resource-managers/, memory manager).
func (s *memoryState) hints(pod *corev1.Pod, ask memoryAsk) []topology.Hint {
	least := len(s.nodes)
	hints := []topology.Hint{}
	for n := range s.all().Subsets() {
		if !s.enough(n, ask, func(t *table) uint64 { return t.Allocatable }, nil) {
			continue
		}
		least = min(least, n.Len())
		if s.suits(n) && s.enough(n, ask, func(t *table) uint64 { return t.Free }, pod) {
			hints = append(hints, topology.Hint{Nodes: n})
		}
	}
	for i := range hints {
		hints[i].Preferred = hints[i].Nodes.Len() == least
	}
	return hints
}

// enough reports whether nodes have what is asked for, with what the pod uses again.
func (s *memoryState) enough(n topology.Nodes, ask memoryAsk, of func(*table) uint64, pod *corev1.Pod) bool {
	for name, size := range ask {
		var sum uint64
		for id := range n.All() {
			sum += of(s.table(id, name))
		}
		if pod != nil {
			sum += s.reusable(pod, n, name)
		}
		if sum < size {
			return false
		}
	}
	return true
}

// suits reports whether a block on these nodes leaves each node with one group.
func (s *memoryState) suits(n topology.Nodes) bool {
	if n.Len() == 1 {
		for id := range n.All() {
			return s.nodes[id].group == n
		}
	}
	return !s.collides(n)
}

// collides reports whether a node of several serves others by itself or with other nodes.
func (s *memoryState) collides(n topology.Nodes) bool {
	if n.Len() == 1 {
		return false
	}
	for id := range n.All() {
		if node := s.nodes[id]; node != nil && node.assignments > 0 && node.group != n {
			return true
		}
	}
	return false
}

// reusable returns how much memory of containers of the pod that end before others start is
// on these nodes.
func (s *memoryState) reusable(pod *corev1.Pod, n topology.Nodes, name corev1.ResourceName) uint64 {
	var sum uint64
	for _, step := range order.Of(pod) {
		if !step.Ends {
			continue
		}
		for _, b := range s.given[pod.UID][step.Name] {
			if b.Nodes == n && b.Type == name {
				sum += b.Size
			}
		}
	}
	return sum
}

// choose returns the nodes for a container: those of the hint, or more with them if these
// have too little. Without a hint it finds its own.
func (s *memoryState) choose(pod *corev1.Pod, ask memoryAsk, hint topology.Hint) (topology.Nodes, error) {
	if hint.Nodes == 0 {
		best, ok := narrowest(s.hints(pod, ask), 0)
		switch {
		case !ok:
			return 0, errors.New("[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available")
		case hint.Preferred && !best.Preferred:
			return 0, errors.New("[memorymanager] failed to find the default preferred hint")
		}
		hint.Nodes = best.Nodes
	}
	if hint.Nodes&^s.all() != 0 || !s.enough(hint.Nodes, ask, func(t *table) uint64 { return t.Free }, nil) {
		more, ok := narrowest(s.hints(pod, ask), hint.Nodes)
		switch {
		case !ok:
			return 0, errors.New("[memorymanager] failed to find NUMA nodes to extend the current topology hint")
		case hint.Preferred && !more.Preferred:
			return 0, errors.New("[memorymanager] failed to find the extended preferred hint")
		}
		hint.Nodes = more.Nodes
	}
	if s.collides(hint.Nodes) {
		return 0, errors.New("[memorymanager] preferred hint violates NUMA node allocation")
	}
	return hint.Nodes, nil
}

// narrowest returns the best one of the hints that have all of these nodes: one that is
// preferred, of these the one with the fewest nodes.
func narrowest(hints []topology.Hint, with topology.Nodes) (best topology.Hint, ok bool) {
	for _, h := range hints {
		if h.Nodes&with != with {
			continue
		}
		if !ok || h.Preferred && !best.Preferred || h.Preferred == best.Preferred && h.Nodes.Narrower(best.Nodes) {
			best, ok = h, true
		}
	}
	return best, ok
}

// give gives a container memory on nodes. What those before it leave is used again.
func (s *memoryState) give(pod *corev1.Pod, container string, n topology.Nodes, ask memoryAsk) {
	var blocks []Block
	for _, name := range ask.names() {
		size := ask[name]
		blocks = append(blocks, Block{Nodes: n, Type: name, Size: size})
		_ = s.reserve(n, name, size-s.reuse(pod, container, blocks[len(blocks)-1])) // there is enough
	}
	if s.given[pod.UID] == nil {
		s.given[pod.UID] = map[string][]Block{}
	}
	s.given[pod.UID][container] = blocks
}

// reuse takes as much of a block as it can from the containers before, and returns how
// much that is.
func (s *memoryState) reuse(pod *corev1.Pod, container string, b Block) uint64 {
	var sum uint64
	for _, step := range before(pod, container) {
		if !step.Ends {
			continue
		}
		own := s.given[pod.UID][step.Name]
		for i := range own {
			if own[i].Nodes == b.Nodes && own[i].Type == b.Type {
				n := min(own[i].Size, b.Size-sum)
				own[i].Size -= n
				sum += n
			}
		}
	}
	return sum
}
