package topology

import (
	"maps"
	"slices"
)

// Rules are what hints are merged by.
type Rules struct {
	Policy  Policy
	Options Options
}

// Merge finds the nodes from which a request is best fulfilled, given the hints of each
// provider, and says whether the policy allows it. With [None] it always does, from any
// nodes.
//
// A way to fulfil the request takes one hint for each resource; it is fulfilled from the
// nodes that are in all of these, and preferred if all of these are and name the same
// nodes. Of all ways a preferred one is best; else one with no more nodes than the most
// demanding resource needs.
//
// All ways are looked at at once, by the sets of nodes that they come to: 2^n at most with
// n nodes, however many resources there are.
func Merge(m Machine, r Rules, hints []Hints) (best Hint, ok bool) {
	if r.Policy == None {
		return Hint{}, true
	}
	if m.nodes == 0 {
		return Hint{Preferred: true}, true
	}
	lists := flatten(hints)
	if r.Policy == SingleNode {
		lists = singles(lists)
	}
	best = r.best(m, lists)
	if r.Policy == SingleNode && best.Nodes == m.nodes {
		best.Nodes = 0 // there is but one node, or nobody cares
	}
	return best, best.Preferred || r.Policy == BestEffort
}

// flatten returns one list for each resource.
func flatten(hints []Hints) [][]Hint {
	var lists [][]Hint
	for _, h := range hints {
		if len(h) == 0 {
			lists = append(lists, []Hint{{Preferred: true}})
		}
		for _, name := range slices.Sorted(maps.Keys(h)) {
			list := h[name]
			switch {
			case list == nil:
				list = []Hint{{Preferred: true}}
			case len(list) == 0:
				list = []Hint{{}}
			}
			lists = append(lists, list)
		}
	}
	return lists
}

// singles leaves the preferred hints of one node or of any.
func singles(lists [][]Hint) [][]Hint {
	out := make([][]Hint, len(lists))
	for i, list := range lists {
		for _, h := range list {
			if h.Preferred && h.Nodes.Len() <= 1 {
				out[i] = append(out[i], h)
			}
		}
	}
	return out
}

// best returns the best of all ways.
func (r Rules) best(m Machine, lists [][]Hint) Hint {
	better := m.closer
	if !r.Options.PreferClosest || r.Policy == SingleNode {
		better = func(a, b Nodes) bool { return a.Narrower(b) }
	}
	var best Nodes
	for n := range preferred(m.nodes, lists) {
		if n != 0 && (best == 0 || better(n, best)) {
			best = n
		}
	}
	if best != 0 {
		return Hint{Nodes: best, Preferred: true}
	}
	demand := demand(lists)
	for n := range reachable(m.nodes, lists) {
		if n != 0 && (best == 0 || fits(n, best, demand, better)) {
			best = n
		}
	}
	if best == 0 {
		best = m.nodes
	}
	return Hint{Nodes: best}
}

// fits reports whether n suits a demand better than best does: one of this many nodes
// best of all, then one of fewer, the more the better, then one of more.
func fits(n, best Nodes, demand int, better func(a, b Nodes) bool) bool {
	x, y := n.Len(), best.Len()
	switch {
	case x == y:
		return better(n, best)
	case x > demand || y > demand:
		return x < y
	}
	return x > y
}

// demand returns how many nodes the most demanding resource needs.
func demand(lists [][]Hint) int {
	most := 0
	for _, list := range lists {
		least := 0
		for _, h := range list {
			if n := h.Nodes.Len(); n > 0 && (least == 0 || n < least) {
				least = n
			}
		}
		most = max(most, least)
	}
	return most
}

// set is a set of sets of nodes.
type set map[Nodes]struct{}

// preferred returns the nodes of the preferred ways: those that each resource prefers or
// does not care about.
func preferred(all Nodes, lists [][]Hint) set {
	var common set // nil: nobody cares so far
	for _, list := range lists {
		own, indifferent := set{}, false
		for _, h := range list {
			switch {
			case !h.Preferred:
			case h.Nodes == 0:
				indifferent = true
			default:
				own[h.Nodes] = struct{}{}
			}
		}
		switch {
		case common == nil && !indifferent:
			common = own
		case common == nil && len(own) > 0:
			common = own
			common[0] = struct{}{} // still nobody cares
		case common != nil:
			common = intersect(common, own, indifferent)
		}
	}
	if common == nil {
		return set{all: {}}
	}
	out := set{}
	for n := range common {
		if n == 0 {
			n = all
		}
		out[n&all] = struct{}{}
	}
	return out
}

// intersect returns what both sets have. The empty set of nodes in common, and
// indifferent for own, stand for any nodes.
func intersect(common, own set, indifferent bool) set {
	out := set{}
	_, open := common[0]
	for n := range common {
		_, both := own[n]
		if n != 0 && (both || indifferent) {
			out[n] = struct{}{}
		}
	}
	if open {
		maps.Copy(out, own)
	}
	if open && indifferent {
		out[0] = struct{}{}
	}
	return out
}

// reachable returns the nodes of all ways.
func reachable(all Nodes, lists [][]Hint) set {
	ways := set{all: {}}
	for _, list := range lists {
		next := set{}
		for n := range ways {
			for _, h := range list {
				if h.Nodes == 0 {
					next[n] = struct{}{}
				} else {
					next[n&h.Nodes] = struct{}{}
				}
			}
		}
		ways = next
	}
	return ways
}
