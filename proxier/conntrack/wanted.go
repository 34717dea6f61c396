package conntrack

import (
	"net/netip"
	"slices"

	"github.com/nodekit-go/nodekit/proxier"
)

// frontend is where clients send to; the zero address is that of a node port, at
// every address of the node.
type frontend struct {
	addr netip.Addr
	port uint16
}

// pending are the frontends whose flows are to be looked at, by family; an empty
// map means all flows of the family.
type pending map[proxier.Family]map[frontend]bool

func newPending() pending { return pending{} }

func (p pending) empty() bool { return len(p) == 0 }

// maxPending is from how many frontends on all flows are looked at: the map need not
// grow while the kernel cannot be asked.
const maxPending = 1 << 14

func (p pending) add(f proxier.Family, at frontend) {
	all, known := p[f]
	switch {
	case !known:
		p[f] = map[frontend]bool{at: true}
	case len(all) == 0: // everything already
	case len(all) >= maxPending:
		p[f] = map[frontend]bool{}
	default:
		all[at] = true
	}
}

func (p pending) addAll(f proxier.Family, frontends map[frontend]bool) {
	if len(frontends) == 0 {
		p[f] = map[frontend]bool{}
		return
	}
	for at := range frontends {
		p.add(f, at)
	}
}

func (p pending) everything() {
	p[proxier.IPv4], p[proxier.IPv6] = map[frontend]bool{}, map[frontend]bool{}
}

// port is what flows of one ServicePort may lead to.
type port struct {
	frontends []frontend
	list      []netip.AddrPort
	serving   map[netip.AddrPort]bool
}

// wanted is which flows are in order. Only UDP is in it.
type wanted struct {
	// ports is nil before the first reset.
	ports map[proxier.Key]*port
	by    map[proxier.Family]map[frontend]*port
}

func newWanted() wanted {
	return wanted{by: map[proxier.Family]map[frontend]*port{proxier.IPv4: {}, proxier.IPv6: {}}}
}

// at returns the endpoints that flows to a frontend may lead to.
func (w *wanted) at(f proxier.Family, at frontend) (map[netip.AddrPort]bool, bool) {
	p := w.by[f][at]
	if p == nil {
		return nil, false
	}
	return p.serving, true
}

// reset makes s what is wanted and adds to todo what changed by it.
func (w *wanted) reset(s *proxier.State, todo pending) {
	if w.ports == nil {
		w.ports = map[proxier.Key]*port{}
	}
	gone := make(map[proxier.Key]bool, len(w.ports))
	for k := range w.ports {
		gone[k] = true
	}
	for _, p := range s.Ports {
		delete(gone, p.Key)
	}
	for k := range gone {
		w.remove(k, todo)
	}
	for _, p := range s.Ports {
		w.put(p, todo)
	}
}

// put takes a ServicePort over. Its flows are looked at when an endpoint went, when
// there was none before, and at frontends that it did not have.
func (w *wanted) put(sp *proxier.ServicePort, todo pending) {
	if sp.Key.Protocol != proxier.UDP {
		return
	}
	f := sp.Key.Family
	next := &port{list: sp.Serving, serving: make(map[netip.AddrPort]bool, len(sp.Serving))}
	for _, a := range sp.Serving {
		next.serving[a] = true
	}
	for _, fe := range sp.Frontends {
		next.frontends = append(next.frontends, frontend{addr: fe.Addr, port: fe.Port})
	}
	old := w.ports[sp.Key]
	if old == nil {
		old = &port{}
	}
	lost := len(old.list) == 0 && len(next.list) > 0
	for _, a := range old.list {
		lost = lost || !next.serving[a]
	}
	for _, at := range old.frontends {
		if !slices.Contains(next.frontends, at) {
			w.release(f, at, old)
			todo.add(f, at)
		}
	}
	for _, at := range next.frontends {
		if lost || !slices.Contains(old.frontends, at) {
			todo.add(f, at)
		}
		w.by[f][at] = next
	}
	w.ports[sp.Key] = next
}

func (w *wanted) remove(k proxier.Key, todo pending) {
	p := w.ports[k]
	if p == nil {
		return
	}
	for _, at := range p.frontends {
		w.release(k.Family, at, p)
		todo.add(k.Family, at)
	}
	delete(w.ports, k)
}

// release takes a frontend from p, unless another port has got it since.
func (w *wanted) release(f proxier.Family, at frontend, p *port) {
	if w.by[f][at] == p {
		delete(w.by[f], at)
	}
}
