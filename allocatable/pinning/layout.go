package pinning

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/nodekit-go/nodekit/allocatable/topology"
)

// CPU says where a logical CPU is. The numbers tell cores, caches and sockets of one
// machine apart, and mean nothing else.
type CPU struct {
	ID int
	// Core is the physical core, Socket the package it is in.
	Core, Socket int
	// Node is the NUMA node.
	Node int
	// Cache is the last-level cache, where a part of the CPUs of a socket share one; else
	// the socket.
	Cache int
}

// Layout is how the CPUs of a machine are grouped.
type Layout struct {
	all                           CPUSet
	sockets, nodes, caches, cores group
	at                            map[int]CPU
	threads                       int
	// nodesFirst is true if a NUMA node is at least as large as a socket.
	nodesFirst bool
}

// group has the CPUs of each socket, node, cache or core by its number.
type group map[int]CPUSet

// NewLayout returns the layout of the CPUs that are online. A machine without any, or
// with one twice, is an error.
func NewLayout(cpus []CPU) (*Layout, error) {
	if len(cpus) == 0 {
		return nil, errors.New("layout of CPUs: the machine has none")
	}
	l := &Layout{sockets: group{}, nodes: group{}, caches: group{}, cores: group{}, at: map[int]CPU{}}
	for _, c := range cpus {
		if _, twice := l.at[c.ID]; twice || c.ID < 0 || c.Node < 0 || c.Node > topology.MaxNode {
			return nil, fmt.Errorf("layout of CPUs: CPU %d on NUMA node %d: want each once, on a node from 0 to %d", c.ID, c.Node, topology.MaxNode)
		}
		one := NewCPUSet(c.ID)
		l.at[c.ID] = c
		l.all = l.all.Union(one)
		l.sockets[c.Socket] = l.sockets[c.Socket].Union(one)
		l.nodes[c.Node] = l.nodes[c.Node].Union(one)
		l.caches[c.Cache] = l.caches[c.Cache].Union(one)
		l.cores[c.Core] = l.cores[c.Core].Union(one)
	}
	l.threads = max(1, len(cpus)/len(l.cores))
	l.nodesFirst = len(l.sockets) >= len(l.nodes)
	return l, nil
}

// CPUs returns all CPUs.
func (l *Layout) CPUs() CPUSet { return l.all }

// PerCore returns how many CPUs a core has, on average and rounded down.
func (l *Layout) PerCore() int { return l.threads }

// numa returns the NUMA nodes that have CPUs.
func (l *Layout) numa() topology.Nodes {
	n, _ := topology.NodesOf(slices.Collect(maps.Keys(l.nodes))...) // NewLayout looked at them
	return n
}

// onNodes returns the CPUs of some NUMA nodes.
func (l *Layout) onNodes(n topology.Nodes) CPUSet {
	var s CPUSet
	for id := range n.All() {
		s = s.Union(l.nodes[id])
	}
	return s
}

// socketsOf returns the sockets that some NUMA nodes are in.
func (l *Layout) socketsOf(n topology.Nodes) []int { return l.sockets.with(l.onNodes(n)) }

// nodesOf returns the NUMA nodes that have some CPUs.
func (l *Layout) nodesOf(cpus CPUSet) topology.Nodes {
	n, _ := topology.NodesOf(l.nodes.with(cpus)...)
	return n
}

// inWholeCores returns those of the CPUs whose cores are among them as a whole.
func (l *Layout) inWholeCores(cpus CPUSet) CPUSet {
	var s CPUSet
	for _, own := range l.cores {
		if own.common(cpus) == own.Len() {
			s = s.Union(own)
		}
	}
	return s
}

// with returns the members that have some of the CPUs, in the order of their numbers.
func (g group) with(cpus CPUSet) []int {
	var ids []int
	for id, own := range g {
		if own.common(cpus) > 0 {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// fullest returns the members that have some free CPUs, those with the fewest first.
func (g group) fullest(free CPUSet) []int {
	left := make(map[int]int, len(g))
	for id, own := range g {
		if n := own.common(free); n > 0 {
			left[id] = n
		}
	}
	return slices.SortedFunc(maps.Keys(left), func(a, b int) int {
		return cmp.Or(cmp.Compare(left[a], left[b]), cmp.Compare(a, b))
	})
}
