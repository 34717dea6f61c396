package topology

import (
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// MaxNode is the largest number of a NUMA node that fits into [Nodes].
const MaxNode = 63

// Nodes is a set of NUMA nodes: bit i stands for node i. The zero value is empty.
type Nodes uint64

// NodesOf returns the set of some nodes. One beyond [MaxNode] is an error.
func NodesOf(ids ...int) (Nodes, error) {
	var n Nodes
	for _, id := range ids {
		if id < 0 || id > MaxNode {
			return 0, fmt.Errorf("NUMA node %d: want a number from 0 to %d", id, MaxNode)
		}
		n |= 1 << id
	}
	return n, nil
}

// Len returns how many nodes the set has.
func (n Nodes) Len() int { return bits.OnesCount64(uint64(n)) }

// Has reports whether a node is in the set.
func (n Nodes) Has(id int) bool { return id >= 0 && id <= MaxNode && n&(1<<id) != 0 }

// All yields the nodes in order.
func (n Nodes) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for rest := uint64(n); rest != 0; rest &= rest - 1 {
			if !yield(bits.TrailingZeros64(rest)) {
				return
			}
		}
	}
}

// IDs returns the nodes in order.
func (n Nodes) IDs() []int { return slices.Collect(n.All()) }

// String returns the nodes like "0,2", or "any" for an empty set, as hints use it.
func (n Nodes) String() string {
	if n == 0 {
		return "any"
	}
	parts := make([]string, 0, n.Len())
	for id := range n.All() {
		parts = append(parts, strconv.Itoa(id))
	}
	return strings.Join(parts, ",")
}

// Narrower reports whether n has fewer nodes than m, or as many of which the last one that
// the other has not is lower.
func (n Nodes) Narrower(m Nodes) bool {
	if a, b := n.Len(), m.Len(); a != b {
		return a < b
	}
	return n < m
}

// Subsets yields the subsets of n that are not empty: the small ones first, and those of
// one size in the order of their nodes. There are 2^Len-1 of them.
func (n Nodes) Subsets() iter.Seq[Nodes] {
	ids := n.IDs()
	return func(yield func(Nodes) bool) {
		for size := 1; size <= len(ids); size++ {
			if !choose(ids, size, 0, yield) {
				return
			}
		}
	}
}

// choose yields chosen together with each choice of so many further ids.
func choose(ids []int, size int, chosen Nodes, yield func(Nodes) bool) bool {
	if size == 0 {
		return yield(chosen)
	}
	for i := 0; i+size <= len(ids); i++ {
		if !choose(ids[i+1:], size-1, chosen|1<<ids[i], yield) {
			return false
		}
	}
	return true
}
