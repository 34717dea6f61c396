package proxier

import (
	"cmp"
	"net/netip"
	"slices"
)

// candidate is an endpoint of one ServicePort before selection.
type candidate struct {
	addr netip.AddrPort
	endpoint
}

// compareCandidates orders by address, and the entries of one address by which of
// them counts: an address may be in use again while the pod that had it before
// still shows, and an endpoint may stand in two slices while it moves.
func compareCandidates(a, b candidate) int {
	return cmp.Or(a.addr.Compare(b.addr), cmp.Compare(a.flags.rank(), b.flags.rank()))
}

// rank is lowest for the entry that counts: not terminating before terminating,
// then ready before not ready, serving before not serving.
func (f endpointFlags) rank() int {
	rank := 0
	if f.has(terminating) {
		rank += 4
	}
	if !f.has(ready) {
		rank += 2
	}
	if !f.has(serving) {
		rank++
	}
	return rank
}

// dedupe sorts candidates by address and leaves one of each. Of equals the first
// one stays, so the input must be in a stable order of slices.
func dedupe(c []candidate) []candidate {
	if !slices.IsSortedFunc(c, compareCandidates) {
		slices.SortStableFunc(c, compareCandidates)
	}
	return slices.CompactFunc(c, func(a, b candidate) bool { return a.addr == b.addr })
}

// fallback reports whether an endpoint may still be used when none is ready: it
// shuts down but serves (KEP-1669).
func (f endpointFlags) fallback() bool { return f.has(serving | terminating) }

// topology is the part of the ready endpoints that a node is to use.
type topology uint8

const (
	everywhere topology = iota
	sameZone
	sameNode
)

// topologyOf decides by the hints of the ready endpoints: a kind of hint counts
// when every ready endpoint has one and at least one names this node (its zone).
func topologyOf(c []candidate, zone string) topology {
	any, allNode, anyNode, allZone, anyZone := false, true, false, true, false
	for _, e := range c {
		if !e.flags.has(ready) {
			continue
		}
		any = true
		allNode = allNode && e.flags.has(nodeHints)
		anyNode = anyNode || e.flags.has(nodeHinted)
		allZone = allZone && e.flags.has(zoneHints)
		anyZone = anyZone || e.inZone(zone)
	}
	switch {
	case any && allNode && anyNode:
		return sameNode
	case any && allZone && anyZone:
		return sameZone
	}
	return everywhere
}

func (t topology) admits(e candidate, zone string) bool {
	switch t {
	case sameNode:
		return e.flags.has(nodeHinted)
	case sameZone:
		return e.inZone(zone)
	}
	return true
}

// selectCluster appends to out the endpoints for policy Cluster.
func selectCluster(out []Endpoint, c []candidate, zone string) []Endpoint {
	t := topologyOf(c, zone)
	return selectReady(out, c, func(e candidate) bool { return t.admits(e, zone) },
		func(candidate) bool { return true })
}

// selectLocal appends to out the endpoints for policy Local, to which topology
// does not apply.
func selectLocal(out []Endpoint, c []candidate) []Endpoint {
	onNode := func(e candidate) bool { return e.flags.has(local) }
	return selectReady(out, c, onNode, onNode)
}

// selectReady appends the ready endpoints that admit accepts, and if there are
// none, the terminating ones that still serve and that fallback accepts.
func selectReady(out []Endpoint, c []candidate, admit, fallback func(candidate) bool) []Endpoint {
	before := len(out)
	for _, e := range c {
		if e.flags.has(ready) && admit(e) {
			out = append(out, Endpoint{Addr: e.addr, Local: e.flags.has(local)})
		}
	}
	if len(out) > before {
		return out
	}
	for _, e := range c {
		if e.flags.fallback() && fallback(e) {
			out = append(out, Endpoint{Addr: e.addr, Local: e.flags.has(local)})
		}
	}
	return out
}

// usable reports whether any endpoint anywhere could take traffic.
func usable(c []candidate) bool {
	return slices.ContainsFunc(c, func(e candidate) bool {
		return e.flags.has(ready) || e.flags.fallback()
	})
}

// readyHere reports whether an endpoint of this node is ready.
func readyHere(c []candidate) bool {
	return slices.ContainsFunc(c, func(e candidate) bool { return e.flags.has(ready | local) })
}

// servingOf returns the addresses that serve, or are ready because their Service
// publishes what does not: before if it has the same.
func servingOf(before []netip.AddrPort, c []candidate) []netip.AddrPort {
	out := make([]netip.AddrPort, 0, len(c))
	for _, e := range c {
		if e.flags.has(serving) || e.flags.has(ready) {
			out = append(out, e.addr)
		}
	}
	if slices.Equal(before, out) {
		return before
	}
	return out
}
