package ipvs

import (
	"net/netip"
	"slices"

	"github.com/nodekit-go/nodekit/proxier"
)

// surroundings are what rendering depends on beside a ServicePort.
type surroundings struct {
	// nodePorts are the addresses of this node at which node ports answer.
	nodePorts []netip.Addr
	// elsewhere are addresses of other devices: they are not bound again.
	elsewhere map[netip.Addr]bool
}

// addrs returns the addresses of a frontend: a node port has one at each address of the node.
func (s *surroundings) addrs(f proxier.Frontend) []netip.Addr {
	if f.Kind == proxier.NodePort {
		return s.nodePorts
	}
	return []netip.Addr{f.Addr}
}

// fate is what becomes of new connections to a frontend.
type fate uint8

const (
	serve fate = iota
	refuse
	drop
)

// front is one address and port of a ServicePort.
type front struct {
	key serverKey
	// kind is the object that knows the front, and mark its value in externalLocal.
	kind object
	mark uint32
	fate fate
	// bind says that the address goes to the device.
	bind     bool
	ranges   []netip.Prefix
	server   virtual
	nodePort bool
}

// view is all that a ServicePort needs in the kernel.
type view struct {
	fronts []front
	// shortcut is the virtual server for connections from this node and its pods to
	// fronts in externalLocal; nil if there are none.
	shortcutKey serverKey
	shortcut    *virtual
	// shared are elements that other ServicePorts may need, too.
	shared []element
}

// usesShortcut reports whether port needs a mark: connections from this node and its pods
// to its external addresses may use endpoints that others may not. It does so without any
// endpoints, too: the virtual server keeps the connections of those that drain.
func usesShortcut(p *proxier.ServicePort) bool {
	external := slices.ContainsFunc(p.Frontends, func(f proxier.Frontend) bool { return f.Kind.External() })
	return external && p.ExternalLocal
}

// render returns what port needs, scheduled by scheduler. mark is that of its shortcut, if
// it uses one.
func render(p *proxier.ServicePort, at surroundings, scheduler string, mark uint32) view {
	r := renderer{port: p, at: at, scheduler: scheduler}
	if mark != 0 && usesShortcut(p) {
		r.mark = mark
		r.view.shortcutKey = serverKey{family: p.Key.Family, mark: mark}
		r.view.shortcut = r.virtual(r.shortcutSettings(), p.Cluster)
	}
	for _, f := range p.Frontends {
		r.frontend(f)
	}
	r.hairpins()
	if p.HealthCheckNodePort != 0 {
		r.view.shared = append(r.view.shared, element{
			in: healthPorts, family: p.Key.Family, at: netip.AddrPortFrom(netip.Addr{}, p.HealthCheckNodePort), proto: proxier.TCP,
		})
	}
	return r.view
}

type renderer struct {
	port      *proxier.ServicePort
	at        surroundings
	scheduler string
	mark      uint32
	view      view
}

func (r *renderer) settings() settings {
	s := settings{scheduler: r.scheduler, flags: schedulerFlags(r.scheduler)}
	if r.port.Affinity > 0 {
		s.flags |= flagPersistent
		s.timeout = uint32(max(r.port.Affinity.Seconds(), 1))
	}
	return s
}

// shortcutSettings are those of the virtual server with a mark. IPVS does not translate
// the port of pinned connections to one: source hashing keeps clients at their endpoints,
// as long as these stay the same.
func (r *renderer) shortcutSettings() settings {
	if r.port.Affinity > 0 {
		return settings{scheduler: "sh", flags: schedulerFlags("sh")}
	}
	return r.settings()
}

// frontend adds the fronts of f.
func (r *renderer) frontend(f proxier.Frontend) {
	for _, a := range r.at.addrs(f) {
		if proxier.FamilyOf(a) == r.port.Key.Family {
			r.view.fronts = append(r.view.fronts, r.front(f.Kind, netip.AddrPortFrom(a, f.Port)))
		}
	}
}

func (r *renderer) front(kind proxier.FrontendKind, at netip.AddrPort) front {
	p := r.port
	f := front{
		key:      serverKey{family: p.Key.Family, proto: p.Key.Protocol, at: at},
		bind:     kind == proxier.ClusterIP || kind != proxier.NodePort && !r.at.elsewhere[at.Addr()],
		nodePort: kind == proxier.NodePort,
	}
	list := p.Cluster
	if kind.External() && p.ExternalLocal || !kind.External() && p.InternalLocal {
		list = p.Local
	}
	f.server = *r.virtual(r.settings(), list)
	switch {
	case !p.HasEndpoints:
		f.fate = refuse
	case len(list) == 0:
		f.fate = drop
	}
	r.classify(&f, kind)
	if kind == proxier.LoadBalancer {
		f.ranges = p.SourceRanges
	}
	return f
}

// classify says which object knows f.
func (r *renderer) classify(f *front, kind proxier.FrontendKind) {
	switch {
	case kind.External() && r.marks():
		f.kind, f.mark = externalLocal, r.mark
	case kind.External() && r.port.ExternalLocal:
		f.kind = localOnly
	case !f.bind:
		f.kind = atNode
	case kind.External():
		f.kind = external
	default:
		f.kind = internal
	}
}

// marks reports whether new connections from here to external addresses get the mark. The
// rules refuse before they mark, but mark before they drop: where the shortcut has nobody to
// send to new connections are decided as those of others are.
func (r *renderer) marks() bool {
	return r.mark != 0 && (len(r.port.Cluster) > 0 || !r.port.HasEndpoints)
}

// virtual returns a virtual server for a list of endpoints.
func (r *renderer) virtual(s settings, list []proxier.Endpoint) *virtual {
	v := &virtual{settings: s, targets: make([]target, len(list)), datagrams: r.port.Key.Protocol == proxier.UDP}
	for i, e := range list {
		v.targets[i] = target{at: e.Addr, weight: r.port.Balance.Weight(e)}
	}
	return v
}

// hairpins adds the connections of local endpoints to themselves.
func (r *renderer) hairpins() {
	known := map[netip.AddrPort]bool{}
	for _, list := range [][]proxier.Endpoint{r.port.Cluster, r.port.Local} {
		for _, e := range list {
			if e.Local && !known[e.Addr] {
				known[e.Addr] = true
				r.view.shared = append(r.view.shared, element{
					in: hairpins, family: r.port.Key.Family, at: e.Addr, proto: r.port.Key.Protocol,
				})
			}
		}
	}
}

// elements returns what the table holds for a front.
func (f *front) elements() []element {
	e := element{in: f.kind, family: f.key.family, at: f.key.at, proto: f.key.proto, mark: f.mark}
	out := []element{e}
	e.mark = 0
	add := func(in object) {
		e.in = in
		out = append(out, e)
	}
	switch f.fate {
	case refuse:
		add(refused)
	case drop:
		add(dropped)
	}
	if f.bind {
		out = append(out, element{in: serviceIPs, family: f.key.family, at: netip.AddrPortFrom(f.key.at.Addr(), 0)})
	} else {
		add(owned)
	}
	if len(f.ranges) > 0 {
		add(firewalled)
		for _, r := range f.ranges {
			e.source = r
			add(sources)
		}
	}
	return out
}

func (f *front) equal(o *front) bool {
	return f.key == o.key && f.kind == o.kind && f.mark == o.mark && f.fate == o.fate && f.bind == o.bind &&
		slices.Equal(f.ranges, o.ranges) && f.server.equal(&o.server)
}
