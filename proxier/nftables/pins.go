package nftables

import (
	"iter"
	"net/netip"
	"time"

	"github.com/nodekit-go/nodekit/proxier"
)

// Session affinity pins a client to a slot number. The numbers of a list are
// its number times maxPins plus an index, so that the random number of a rule
// is a slot number at once: the rules can store it without a second lookup.
const (
	maxPins     = 1 << 16
	maxPinLists = 1 << 16
)

// numbers hands out the numbers of clients and lists. The zero value is ready.
type numbers struct {
	client, list uint32
	free         []uint32
	// released are free once the kernel has let go of them: until then connections
	// to a former owner would find the endpoints of the next.
	released []uint32
}

// pins returns the affinity of port, which goes on from that of old. It returns
// false when there are too many lists or endpoints.
func (n *numbers) pins(old *entry, port *proxier.ServicePort) (*pins, bool) {
	if len(port.Cluster) > maxPins || len(port.Local) > maxPins {
		return nil, false
	}
	p := &pins{}
	if old != nil && old.pins != nil {
		*p = *old.pins
	} else {
		var ok bool
		if p.cluster.number, p.local.number, ok = n.lists(); !ok {
			return nil, false
		}
		p.cluster.client, p.local.client = n.client+1, n.client+2
		n.client += 2
	}
	p.cluster = p.cluster.next(port.Cluster)
	p.local = p.local.next(port.Local)
	return p, true
}

// lists takes two list numbers.
func (n *numbers) lists() (a, b uint32, ok bool) {
	for len(n.free) < 2 {
		if n.list+1 >= maxPinLists {
			return 0, 0, false
		}
		n.list++
		n.free = append(n.free, n.list)
	}
	last := len(n.free) - 2
	a, b = n.free[last], n.free[last+1]
	n.free = n.free[:last]
	return a, b, true
}

// release takes the numbers back that old has and next has not. They are given
// away again after settle.
func (n *numbers) release(old, next *entry) {
	if old == nil || old.pins == nil || (next != nil && next.pins != nil) {
		return
	}
	n.released = append(n.released, old.pins.cluster.number, old.pins.local.number)
}

// settle makes released numbers free.
func (n *numbers) settle() {
	n.free = append(n.free, n.released...)
	n.released = nil
}

// rebuild frees all numbers but those of entries.
func (n *numbers) rebuild(entries iter.Seq[*entry]) {
	used := make(map[uint32]bool)
	for e := range entries {
		if e.pins != nil {
			used[e.pins.cluster.number], used[e.pins.local.number] = true, true
		}
	}
	n.free, n.released = nil, nil
	for i := uint32(1); i <= n.list; i++ {
		if !used[i] {
			n.free = append(n.free, i)
		}
	}
}

// pins is the affinity of one ServicePort. A client is pinned once per list, for
// all frontends that use the list.
type pins struct {
	cluster pinList
	local   pinList
}

// pinList is an endpoint list with stable slots: an endpoint keeps its slot as
// long as it lives, and the slot of a dead one is empty until a newcomer takes
// it. The zero netip.AddrPort is an empty slot.
type pinList struct {
	// client is the number that clients are stored under. Unlike the number of the
	// list it is never used again, so that nobody is found pinned by a former owner.
	client uint32
	number uint32
	slots  []netip.AddrPort
}

// next returns l with the endpoints of want. When most slots would be empty the
// list is packed, which costs some clients their endpoint.
func (l pinList) next(want []proxier.Endpoint) pinList {
	waiting := make(map[netip.AddrPort]bool, len(want))
	for _, e := range want {
		waiting[e.Addr] = true
	}
	slots := make([]netip.AddrPort, len(l.slots), max(len(l.slots), len(want)))
	for i, a := range l.slots {
		if waiting[a] {
			slots[i] = a
			delete(waiting, a)
		}
	}
	free := 0
	for _, e := range want {
		if !waiting[e.Addr] {
			continue
		}
		delete(waiting, e.Addr)
		for free < len(slots) && slots[free].IsValid() {
			free++
		}
		if free == len(slots) {
			slots = append(slots, e.Addr)
		} else {
			slots[free] = e.Addr
		}
	}
	return pinList{client: l.client, number: l.number, slots: pack(slots, len(want))}
}

// pack drops empty slots at the end, and moves the last endpoints into empty
// slots while more than half of the slots are empty.
func pack(slots []netip.AddrPort, count int) []netip.AddrPort {
	free := 0
	for {
		for len(slots) > 0 && !slots[len(slots)-1].IsValid() {
			slots = slots[:len(slots)-1]
		}
		if len(slots) <= 2*count {
			return slots
		}
		for slots[free].IsValid() {
			free++
		}
		last := len(slots) - 1
		slots[free], slots[last] = slots[last], netip.AddrPort{}
	}
}

// entryList is one of the two endpoint lists of an entry.
type entryList struct {
	slots []proxier.Endpoint
	// pins is nil without session affinity.
	pins *pinList
}

func (e *entry) clusterList() entryList {
	l := entryList{slots: e.cluster}
	if e.pins != nil {
		l.pins = &e.pins.cluster
	}
	return l
}

func (e *entry) localList() entryList {
	l := entryList{slots: e.local}
	if e.pins != nil {
		l.pins = &e.pins.local
	}
	return l
}

// pinnedList is an affinity chain: its name and all its rules depend on. It is
// comparable: equal values have equal rules.
type pinnedList struct {
	chain   chain
	client  uint32
	timeout time.Duration
	// width counts the slots; sparse tells that some are empty.
	width  uint32
	sparse bool
	// fallback is where a connection goes that could not be pinned.
	fallback chain
}

// pin returns the chain that pins clients of l before c balances them; c itself
// without session affinity.
func (v *view) pin(e *entry, l entryList, c chain) chain {
	if l.pins == nil {
		return c
	}
	p := pinnedList{
		chain:    chain{kind: affinity, space: c.space, n: l.pins.number},
		client:   l.pins.client,
		timeout:  e.port.Affinity,
		width:    uint32(len(l.pins.slots)),
		sparse:   len(l.pins.slots) != len(l.slots),
		fallback: chain{kind: balance, space: c.space, n: c.n},
	}
	entry := p.chain
	switch c.kind {
	case cluster:
		entry.kind = affinityCluster
	case external:
		entry.kind = affinityExternal
	case local:
		p.chain.kind, p.fallback.kind = affinityLocal, local
		entry = p.chain
	}
	v.addPinned(p, l.pins)
	return entry
}

// addPinned adds a chain once per space, and the slots of its list once.
func (v *view) addPinned(p pinnedList, l *pinList) {
	known := false
	for _, q := range v.pinned {
		if q.chain == p.chain {
			return
		}
		known = known || q.chain.n == p.chain.n
	}
	v.pinned = append(v.pinned, p)
	if known {
		return
	}
	for i, a := range l.slots {
		if a.IsValid() {
			k := key{number: l.number*maxPins + uint32(i)}
			v.elements = append(v.elements, element{in: affinitySlots, key: k, value: value{ep: a}})
		}
	}
}
