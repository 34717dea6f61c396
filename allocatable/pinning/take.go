package pinning

import (
	"cmp"
	"fmt"
	"slices"
)

// taker takes CPUs out of free ones, those close to one another first.
type taker struct {
	layout  *Layout
	options CPUOptions
	free    CPUSet
	got     CPUSet
	need    int
}

// take returns so many of the free CPUs. Whole sockets and NUMA nodes are taken first, then
// whole caches if that is asked for, then whole cores, then single CPUs; of each kind those
// that are in the fullest part of the machine, so that empty parts stay empty
// (https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/3570-cpumanager).
func (l *Layout) take(free CPUSet, need int, o CPUOptions) (CPUSet, error) {
	if have := free.Len(); need > have {
		return CPUSet{}, fmt.Errorf("not enough cpus available to satisfy request: requested=%d, available=%d", need, have)
	}
	if o.DistributeAcrossNUMA {
		group := 1
		if o.FullCores {
			group = l.threads
		}
		d := distributor{layout: l, options: o, free: free, need: need, group: group}
		if got, ok := d.distribute(); ok {
			return got, nil
		}
		o.AlignByCache = false
	}
	return l.pack(free, need, o), nil
}

// pack is take from enough free CPUs, without regard to balance.
func (l *Layout) pack(free CPUSet, need int, o CPUOptions) CPUSet {
	t := taker{layout: l, options: o, free: free, need: need}
	if l.nodesFirst {
		t.whole(l.nodes, t.nodes())
		t.whole(l.sockets, t.sockets())
	} else {
		t.whole(l.sockets, t.sockets())
		t.whole(l.nodes, t.nodes())
	}
	if o.AlignByCache {
		t.byCache()
	}
	if !o.DistributeAcrossCores {
		t.whole(l.cores, t.cores())
	}
	t.single()
	return t.got
}

func (t *taker) take(cpus CPUSet) {
	t.got = t.got.Union(cpus)
	t.free = t.free.Without(cpus)
	t.need -= cpus.Len()
}

// whole takes members of a group that are free as a whole, as long as they are needed as
// a whole.
func (t *taker) whole(g group, order []int) {
	for _, id := range order {
		own := g[id]
		if n := own.Len(); own.common(t.free) == n && t.need >= n {
			t.take(own)
		}
	}
}

// sockets and nodes return those with free CPUs in the order in which they are taken: the
// fullest first, within what they are in.
func (t *taker) sockets() []int {
	if t.layout.nodesFirst {
		return t.nested(t.nodes(), t.layout.nodes, t.layout.sockets)
	}
	return t.layout.sockets.fullest(t.free)
}

func (t *taker) nodes() []int {
	if t.layout.nodesFirst {
		return t.layout.nodes.fullest(t.free)
	}
	return t.nested(t.sockets(), t.layout.sockets, t.layout.nodes)
}

// cores returns the cores with free CPUs, in the order in which they are taken.
func (t *taker) cores() []int {
	if t.layout.nodesFirst {
		return t.nested(t.sockets(), t.layout.sockets, t.layout.cores)
	}
	return t.nested(t.nodes(), t.layout.nodes, t.layout.cores)
}

// caches returns the caches with free CPUs, in the order in which they are taken.
func (t *taker) caches() []int {
	return t.nested(t.nodes(), t.layout.nodes, t.layout.caches)
}

// nested returns the members of inner in the order of the members of outer that they are
// in.
func (t *taker) nested(order []int, outer, inner group) []int {
	var ids []int
	for _, id := range order {
		in := t.free.Intersect(outer[id])
		members := inner.with(in)
		slices.SortFunc(members, func(a, b int) int {
			return cmp.Or(cmp.Compare(inner[a].common(t.free), inner[b].common(t.free)), cmp.Compare(a, b))
		})
		ids = append(ids, members...)
	}
	return ids
}

// byCache takes whole caches, and the rest from one cache if it fits into it.
func (t *taker) byCache() {
	l := t.layout
	size := max(1, l.all.Len()/len(l.caches))
	for _, id := range t.caches() {
		if t.need >= size {
			t.whole(l.caches, t.caches())
		}
		if t.need > 0 {
			t.part(id)
		}
		if t.need == 0 {
			return
		}
	}
}

// part takes all that is needed from one cache, in whole cores as far as possible, or
// nothing.
func (t *taker) part(cache int) {
	l := t.layout
	inside := l.cores.with(t.free.Intersect(l.caches[cache]))
	if need := (t.need + l.threads - 1) / l.threads; len(inside) > need {
		inside = inside[:need]
	}
	var cpus CPUSet
	for _, core := range inside {
		cpus = cpus.Union(t.free.Intersect(l.cores[core]))
	}
	if n := cpus.Len(); l.threads > 1 && t.need%2 != 0 && n > t.need {
		cpus = cpus.first(n - 1)
	}
	if cpus.Len() == t.need {
		t.take(cpus)
	}
}

// single takes single CPUs: those of the fullest cores first, or of other cores each if
// they are to be distributed.
func (t *taker) single() {
	if t.need <= 0 {
		return
	}
	var cpus []int
	if t.options.DistributeAcrossCores {
		for _, socket := range t.sockets() {
			cpus = append(cpus, t.free.Intersect(t.layout.sockets[socket]).List()...)
		}
	} else {
		for _, core := range t.cores() {
			cpus = append(cpus, t.free.Intersect(t.layout.cores[core]).List()...)
		}
	}
	t.take(NewCPUSet(cpus[:t.need]...))
}
