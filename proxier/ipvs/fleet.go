package ipvs

import (
	"maps"
	"net/netip"
	"slices"
	"time"
)

// fleet is what the kernel has of the Backend's virtual servers. It is pure: it computes
// operations, and takes them over when they are done.
type fleet map[serverKey]*held

type held struct {
	settings
	targets map[netip.AddrPort]heldTarget
	// datagrams says that connections are flows of UDP.
	datagrams bool
}

type heldTarget struct {
	weight uint16
	// odd says that its packets are not rewritten.
	odd bool
	// since is when it began to drain; zero if it does not.
	since time.Time
}

// plan returns what makes the virtual server k what want says: nil is that it goes. New
// endpoints come before old ones go.
func (f fleet) plan(k serverKey, want *virtual) []op {
	have := f[k]
	switch {
	case want == nil && have == nil:
		return nil
	case want == nil:
		return []op{{kind: deleteServer, server: k}}
	}
	var ops []op
	switch {
	case have == nil:
		ops = append(ops, op{kind: addServer, server: k, settings: want.settings})
		have = &held{}
	case have.settings != want.settings:
		ops = append(ops, op{kind: setServer, server: k, settings: want.settings})
	}
	for _, t := range want.targets {
		switch old, known := have.targets[t.at]; {
		case !known:
			ops = append(ops, op{kind: addTarget, server: k, target: t})
		case old.weight != t.weight || old.odd:
			ops = append(ops, op{kind: setTarget, server: k, target: t})
		}
	}
	ops = append(ops, have.leave(k, want)...)
	for i := range ops {
		ops[i].datagrams = want.datagrams
	}
	return ops
}

// leave returns what takes away the targets that want does not have, sorted.
func (h *held) leave(k serverKey, want *virtual) []op {
	var ops []op
	for _, at := range slices.SortedFunc(maps.Keys(h.targets), netip.AddrPort.Compare) {
		_, wanted := slices.BinarySearchFunc(want.targets, at, func(t target, at netip.AddrPort) int { return t.at.Compare(at) })
		switch old := h.targets[at]; {
		case wanted:
		case !want.drains():
			ops = append(ops, op{kind: deleteTarget, server: k, target: target{at: at}})
		case old.weight != 0:
			ops = append(ops, op{kind: setTarget, server: k, target: target{at: at}})
		}
	}
	return ops
}

// done takes over what the kernel has done.
func (f fleet) done(o op, now time.Time) {
	h := f[o.server]
	if h == nil && o.kind != deleteServer {
		h = &held{targets: map[netip.AddrPort]heldTarget{}}
		f[o.server] = h
	}
	switch o.kind {
	case addServer, setServer:
		h.settings, h.datagrams = o.settings, o.datagrams
	case deleteServer:
		delete(f, o.server)
	case addTarget, setTarget:
		t := heldTarget{weight: o.target.weight}
		if t.weight == 0 {
			t.since = now
		}
		h.targets[o.target.at], h.datagrams = t, o.datagrams
	case deleteTarget:
		delete(h.targets, o.target.at)
	}
}

// draining returns the virtual servers that have targets which drain, sorted.
func (f fleet) draining() []serverKey {
	var out []serverKey
	for k, h := range f {
		for _, t := range h.targets {
			if !t.since.IsZero() {
				out = append(out, k)
				break
			}
		}
	}
	slices.SortFunc(out, serverKey.compare)
	return out
}

// answerTime is how long a removed endpoint of UDP may still answer what it has been asked. Its
// flows are nobody's to end, and go elsewhere afterwards.
const answerTime = time.Second

// FlowsLeave is after how long flows of UDP have left a removed endpoint, while Watch runs. Who makes
// the kernel forget their entries of connection tracking waits for that long: answers to
// connections that were masqueraded need them.
const FlowsLeave = answerTime + 2*minDrainPause

// drained returns what removes the targets of k that have no connections any more, or have
// had them for limit.
func (f fleet) drained(k serverKey, found []foundTarget, limit time.Duration, now time.Time) []op {
	h := f[k]
	if h == nil {
		return nil
	}
	if h.datagrams {
		limit = min(limit, answerTime)
	}
	var ops []op
	for _, t := range found {
		mine, known := h.targets[t.at]
		if known && !mine.since.IsZero() && (t.connections == 0 || now.Sub(mine.since) >= limit) {
			ops = append(ops, op{kind: deleteTarget, server: k, target: target{at: t.at}})
		}
	}
	return ops
}

// adopt takes over a virtual server that the kernel has. What weighs nothing there drains,
// unless it is wanted again: since then if old, which may be nil, knows it, else from now on.
func (f fleet) adopt(s foundServer, found []foundTarget, old *held, now time.Time) {
	h := &held{settings: s.settings, targets: make(map[netip.AddrPort]heldTarget, len(found))}
	for _, t := range found {
		mine := heldTarget{weight: t.weight, odd: !t.masquerades}
		if t.weight == 0 {
			mine.since = now
			if old != nil && !old.targets[t.at].since.IsZero() {
				mine.since = old.targets[t.at].since
			}
		}
		h.targets[t.at] = mine
	}
	f[s.key] = h
}
