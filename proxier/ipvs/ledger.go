package ipvs

import (
	"cmp"
	"maps"
	"slices"

	"github.com/nodekit-go/nodekit/proxier"
)

// ledger says what each ServicePort needs in the kernel, and who owns what several ask
// for. It is pure: it computes changes and makes none.
type ledger struct {
	entries map[proxier.Key]entry
	// claims are who asks for a front; the first has it.
	claims map[serverKey][]claim
	// counts are how many fronts and ServicePorts need an element.
	counts map[element]int
}

type entry struct {
	port *proxier.ServicePort
	view view
}

type claim struct {
	key   proxier.Key
	front *front
}

// precedes orders claims: an address of a Service wins over a node port, which has other
// addresses; then the smaller Key does.
func (c claim) precedes(o claim) int {
	if c.front.nodePort != o.front.nodePort {
		if o.front.nodePort {
			return -1
		}
		return 1
	}
	return c.key.Compare(o.key)
}

func newLedger() *ledger {
	return &ledger{entries: map[proxier.Key]entry{}, claims: map[serverKey][]claim{}, counts: map[element]int{}}
}

// changes gathers what is to become different in the kernel.
type changes struct {
	// servers are virtual servers as they are to be; nil is one that goes.
	servers map[serverKey]*virtual
	// before are the counts of elements as they were.
	before map[element]int
}

func newChanges() *changes {
	return &changes{servers: map[serverKey]*virtual{}, before: map[element]int{}}
}

// replace puts port and what it needs in the place of what the ledger has for key; a nil
// port removes it.
func (l *ledger) replace(c *changes, key proxier.Key, port *proxier.ServicePort, now view) {
	old := l.entries[key]
	touched := make(map[serverKey]*front, len(old.view.fronts)+len(now.fronts))
	for i := range old.view.fronts {
		touched[old.view.fronts[i].key] = nil
	}
	for i := range now.fronts {
		touched[now.fronts[i].key] = &now.fronts[i]
	}
	for k, f := range touched {
		l.claim(c, k, key, f)
	}
	l.shortcut(c, old.view, now)
	for _, e := range old.view.shared {
		l.count(c, e, -1)
	}
	for _, e := range now.shared {
		l.count(c, e, 1)
	}
	if port == nil {
		delete(l.entries, key)
		return
	}
	l.entries[key] = entry{port: port, view: now}
}

// claim gives a front to key, or takes it when it is nil, and notes what changes when
// another one is the first.
func (l *ledger) claim(c *changes, k serverKey, key proxier.Key, f *front) {
	all := l.claims[k]
	var before, after *front
	if len(all) > 0 {
		before = all[0].front
	}
	all = slices.DeleteFunc(all, func(o claim) bool { return o.key == key })
	if f != nil {
		mine := claim{key, f}
		i, _ := slices.BinarySearchFunc(all, mine, claim.precedes)
		all = slices.Insert(all, i, mine)
	}
	if len(all) > 0 {
		after = all[0].front
		l.claims[k] = all
	} else {
		delete(l.claims, k)
	}
	if before != nil && after != nil && before.equal(after) {
		return
	}
	if before != nil {
		for _, e := range before.elements() {
			l.count(c, e, -1)
		}
	}
	c.servers[k] = nil
	if after != nil {
		for _, e := range after.elements() {
			l.count(c, e, 1)
		}
		c.servers[k] = &after.server
	}
}

func (l *ledger) shortcut(c *changes, old, now view) {
	if old.shortcut != nil && (now.shortcut == nil || old.shortcutKey != now.shortcutKey) {
		c.servers[old.shortcutKey] = nil
	}
	if now.shortcut != nil && (old.shortcutKey != now.shortcutKey || !now.shortcut.equal(old.shortcut)) {
		c.servers[now.shortcutKey] = now.shortcut
	}
}

func (l *ledger) count(c *changes, e element, by int) {
	if _, known := c.before[e]; !known {
		c.before[e] = l.counts[e]
	}
	if l.counts[e] += by; l.counts[e] <= 0 {
		delete(l.counts, e)
	}
}

// elements returns which elements go and which come, sorted.
func (c *changes) elements(l *ledger) (gone, come []element) {
	for e, before := range c.before {
		switch now := l.counts[e]; {
		case before > 0 && now == 0:
			gone = append(gone, e)
		case before == 0 && now > 0:
			come = append(come, e)
		}
	}
	slices.SortFunc(gone, element.compare)
	slices.SortFunc(come, element.compare)
	return gone, come
}

// keys returns the virtual servers that change, sorted.
func (c *changes) keys() []serverKey {
	return slices.SortedFunc(maps.Keys(c.servers), serverKey.compare)
}

func (e element) compare(o element) int {
	return cmp.Or(cmp.Compare(e.in, o.in), cmp.Compare(e.family, o.family), e.at.Compare(o.at),
		cmp.Compare(e.proto, o.proto), e.source.Compare(o.source), cmp.Compare(e.mark, o.mark))
}
