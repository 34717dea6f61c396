package pinning

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/nodekit-go/nodekit/allocatable/topology"
)

// distributor takes CPUs evenly from as few NUMA nodes as have enough
// (https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/2902-cpumanager-distribute-cpus-policy-option).
type distributor struct {
	layout  *Layout
	options CPUOptions
	free    CPUSet
	need    int
	// group is how many CPUs are taken together.
	group int
}

// plan is a way to distribute: an equal share from each node, and what is left from some
// of them, a group from each in turn.
type plan struct {
	nodes   []int
	share   int
	rest    []int
	balance float64
	// together says that all nodes are in one socket.
	together bool
}

// distribute returns false if there is no even way.
func (d *distributor) distribute() (CPUSet, bool) {
	if d.need == 0 || d.need%d.group != 0 {
		return CPUSet{}, d.need == 0
	}
	nodes := (&taker{layout: d.layout, free: d.free}).nodes()
	least, most := d.bounds(len(nodes))
	for size := least; size <= most; size++ {
		var best *plan
		combinations(nodes, size, func(some []int) {
			if p := d.plan(nodes, some); p != nil && (best == nil || d.better(p, best)) {
				best = p
			}
		})
		if best != nil {
			return d.carryOut(best)
		}
	}
	return CPUSet{}, false
}

// bounds returns how many nodes it takes at least and at most.
func (d *distributor) bounds(nodes int) (least, most int) {
	up := func(a, b int) int { return (a + b - 1) / b }
	perNode := up(up(d.layout.all.Len(), d.group), len(d.layout.nodes))
	groups := up(d.need, d.group)
	return up(groups, perNode), min(groups, nodes)
}

// better reports whether a is better than b: in one socket if sockets count, else the more
// balanced one.
func (d *distributor) better(a, b *plan) bool {
	if d.options.AlignBySocket && a.together != b.together {
		return a.together
	}
	return a.balance < b.balance
}

// plan distributes over some of the nodes that have free CPUs; nil if they do not have
// enough.
func (d *distributor) plan(nodes, some []int) *plan {
	left := map[int]int{}
	for _, n := range nodes {
		left[n] = d.layout.nodes[n].common(d.free)
	}
	total := 0
	for _, n := range some {
		total += left[n] / d.group
	}
	if total*d.group < d.need {
		return nil
	}
	p := &plan{nodes: slices.Clone(some), share: d.share(some, left)}
	for _, n := range some {
		if left[n] < p.share {
			return nil
		}
		left[n] -= p.share
	}
	set, _ := topology.NodesOf(some...)
	p.together = len(d.layout.socketsOf(set)) <= 1
	rest := d.need - p.share*len(some)
	if rest == 0 {
		p.balance = deviation(left)
		return p
	}
	if !d.spread(p, rest, left) {
		return nil
	}
	return p
}

// share is what each of some nodes gives. If sockets count, a node that has less makes it
// smaller; else there is no even way with it.
func (d *distributor) share(some []int, left map[int]int) int {
	share := d.need / len(some) / d.group * d.group
	if d.options.AlignBySocket {
		for _, n := range some {
			share = min(share, left[n]/d.group*d.group)
		}
	}
	return share
}

// spread chooses the nodes that give what is left beside the equal shares, so that the
// machine stays as balanced as possible. It returns false if they do not have it.
func (d *distributor) spread(p *plan, rest int, left map[int]int) bool {
	p.balance = math.MaxFloat64
	var able []int
	for _, n := range p.nodes {
		if left[n] >= d.group {
			able = append(able, n)
		}
	}
	for size := len(able); size >= 1; size-- {
		combinations(able, size, func(some []int) {
			after, ok := d.after(left, some, rest)
			if !ok {
				return
			}
			if b := deviation(after); b < p.balance {
				p.balance, p.rest = b, slices.Clone(some)
			}
		})
	}
	return p.rest != nil
}

// after returns what is left on each node when some give the rest.
func (d *distributor) after(left map[int]int, some []int, rest int) (map[int]int, bool) {
	after := maps.Clone(left)
	for rest > 0 {
		before := rest
		for _, n := range some {
			if rest > 0 && after[n] >= d.group {
				after[n] -= d.group
				rest -= d.group
			}
		}
		if rest == before {
			return nil, false
		}
	}
	return after, true
}

// carryOut takes the CPUs of a plan.
func (d *distributor) carryOut(p *plan) (CPUSet, bool) {
	var got CPUSet
	free := d.free
	take := func(node, n int) {
		if own := free.Intersect(d.layout.nodes[node]); own.Len() >= n {
			cpus := d.layout.pack(own, n, CPUOptions{DistributeAcrossCores: d.options.DistributeAcrossCores})
			got, free = got.Union(cpus), free.Without(cpus)
		}
	}
	for _, n := range p.nodes {
		take(n, p.share)
	}
	for got.Len() < d.need {
		before := got.Len()
		for _, n := range p.rest {
			if got.Len() < d.need {
				take(n, d.group)
			}
		}
		if got.Len() == before {
			return CPUSet{}, false
		}
	}
	return got, true
}

// deviation is the standard deviation of the values, to three digits: what differs by less
// is equally balanced.
func deviation(values map[int]int) float64 {
	round := func(x float64) float64 { return math.Round(x*1000) / 1000 }
	n := float64(len(values))
	sum := 0.0
	for _, v := range values {
		sum += float64(v)
	}
	mean := round(sum / n)
	squares := make([]float64, 0, len(values))
	for _, v := range values {
		squares = append(squares, (float64(v)-mean)*(float64(v)-mean))
	}
	slices.SortFunc(squares, cmp.Compare) // the order of a map must not matter
	sum = 0
	for _, s := range squares {
		sum += s
	}
	return round(math.Sqrt(sum / n))
}

// combinations calls f with each choice of so many items, in their order. f must not keep
// its argument.
func combinations(items []int, size int, f func([]int)) {
	chosen := make([]int, 0, size)
	var next func(from int)
	next = func(from int) {
		if len(chosen) == size {
			f(chosen)
			return
		}
		for i := from; i <= len(items)-(size-len(chosen)); i++ {
			chosen = append(chosen, items[i])
			next(i + 1)
			chosen = chosen[:len(chosen)-1]
		}
	}
	if size > 0 {
		next(0)
	}
}
