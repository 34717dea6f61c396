package nftables

import (
	"slices"

	"github.com/nodekit-go/nodekit/proxier"
)

// opKey is the identity of an element in the kernel.
type opKey struct {
	family proxier.Family
	in     object
	key    key
}

// op is what happens to one element: it goes (del), comes (add), or changes its
// value (both).
type op struct {
	opKey
	del, add bool
	old, new value
}

// batch gathers what happens to elements, so that each is touched once however
// many ServicePorts give and take it.
type batch struct {
	gone, come []familyElement
	pinned     []pinnedOp
}

type familyElement struct {
	family proxier.Family
	element
}

// pinnedOp rewrites the rules of an affinity chain.
type pinnedOp struct {
	family proxier.Family
	list   pinnedList
}

func (b *batch) remove(f proxier.Family, e element) {
	b.gone = append(b.gone, familyElement{f, e})
}

func (b *batch) put(f proxier.Family, e element) {
	b.come = append(b.come, familyElement{f, e})
}

// reset empties the batch.
func (b *batch) reset() { *b = batch{gone: b.gone[:0], come: b.come[:0]} }

func (b *batch) size() int { return len(b.gone) + len(b.come) }

// merge brings the two sides of the batch together, element by element. An
// element that goes from one ServicePort to another comes after it went,
// whichever of the two was looked at first.
func (b *batch) merge() []op {
	ops := make([]op, 0, b.size())
	if len(b.gone) == 0 {
		for _, e := range b.come {
			ops = append(ops, op{opKey: opKey{e.family, e.in, e.key}, add: true, new: e.value})
		}
		return ops
	}
	index := make(map[opKey]int, b.size())
	for _, e := range b.gone {
		k := opKey{e.family, e.in, e.key}
		index[k] = len(ops)
		ops = append(ops, op{opKey: k, del: true, old: e.value})
	}
	for _, e := range b.come {
		k := opKey{e.family, e.in, e.key}
		i, ok := index[k]
		if !ok {
			i = len(ops)
			index[k] = i
			ops = append(ops, op{opKey: k})
		}
		ops[i].add, ops[i].new = true, e.value
	}
	return ops
}

// idle reports that nothing happens in the end.
func (o *op) idle() bool { return o.del && o.add && o.old == o.new }

// phases splits the batch: first new and changed endpoints, which take a removed
// endpoint out at once; then what leads to them, and what is no longer needed.
// Either may need several transactions, and is in an order in which that does no
// harm.
func (b *batch) phases() (early, late []op) {
	for _, o := range b.merge() {
		switch {
		case o.idle():
		case o.add && objectSpecs[o.in].early:
			early = append(early, o)
		default:
			late = append(late, o)
		}
	}
	byRank := func(a, b op) int { return a.rank() - b.rank() }
	slices.SortStableFunc(early, byRank)
	slices.SortStableFunc(late, byRank)
	return early, late
}

// rank orders the operations of a phase. Connections to oneself must be known
// before an endpoint that makes them is in use. An address with source ranges must
// be closed to others before it leads anywhere, and until it does not any more.
func (o *op) rank() int {
	switch {
	case o.in == hairpin && o.add, o.in == firewallVIPs && o.add, o.in == firewallSources:
		return 0
	case o.in == firewallVIPs:
		return 2
	}
	return 1
}

// counts are the references to shared elements.
type counts map[opKey]int

// change adds what turns old into new, both views of the same family. Shared
// elements come with their first reference and go with their last.
func (b *batch) change(f proxier.Family, old, new view, refs counts) {
	b.changeElements(f, old.elements, new.elements)
	b.changeLists(f, old.lists, new.lists)
	for _, e := range new.shared {
		k := opKey{f, e.in, e.key}
		if refs[k]++; refs[k] == 1 {
			b.put(f, e)
		}
	}
	for _, e := range old.shared {
		k := opKey{f, e.in, e.key}
		if refs[k]--; refs[k] == 0 {
			delete(refs, k)
			b.remove(f, e)
		}
	}
	b.changePinned(f, old.pinned, new.pinned)
}

// smallView is the number of elements up to which a scan beats a map.
const smallView = 16

func (b *batch) changeElements(f proxier.Family, old, new []element) {
	find := finder(new)
	for _, e := range old {
		if v, ok := find(e); !ok || v != e.value {
			b.remove(f, e)
		}
	}
	find = finder(old)
	for _, e := range new {
		if v, ok := find(e); !ok || v != e.value {
			b.put(f, e)
		}
	}
}

// finder returns a function that looks an element's value up by identity.
func finder(in []element) func(element) (value, bool) {
	if len(in) <= smallView {
		return func(e element) (value, bool) {
			for i := range in {
				if in[i].in == e.in && in[i].key == e.key {
					return in[i].value, true
				}
			}
			return value{}, false
		}
	}
	type id struct {
		in  object
		key key
	}
	m := make(map[id]value, len(in))
	for _, e := range in {
		m[id{e.in, e.key}] = e.value
	}
	return func(e element) (value, bool) {
		v, ok := m[id{e.in, e.key}]
		return v, ok
	}
}

// changeLists compares endpoint lists slot by slot: the work is a comparison
// per slot, the elements are those that differ.
func (b *batch) changeLists(f proxier.Family, old, new []list) {
	for _, o := range old {
		n := findList(new, o)
		for i := range o.slots {
			if i >= len(n.slots) || n.slots[i].Addr != o.slots[i].Addr {
				b.remove(f, o.element(i))
			}
		}
	}
	for _, n := range new {
		o := findList(old, n)
		for i := range n.slots {
			if i >= len(o.slots) || o.slots[i].Addr != n.slots[i].Addr {
				b.put(f, n.element(i))
			}
		}
	}
}

func findList(in []list, l list) list {
	for _, o := range in {
		if o.in == l.in && o.key == l.key {
			return o
		}
	}
	return list{}
}

func (l list) element(i int) element {
	return element{in: l.in, key: l.key.slot(i), value: value{ep: l.slots[i].Addr}}
}

func (b *batch) changePinned(f proxier.Family, old, new []pinnedList) {
next:
	for _, n := range new {
		for _, o := range old {
			if o == n {
				continue next
			}
		}
		b.pinned = append(b.pinned, pinnedOp{family: f, list: n})
	}
}
