package proxier

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// port is one ServicePort of the desired state.
type port struct {
	key     Key
	service *service
	created int64
	spec    *familySpec
	// frontends are those it asks for; out has those it owns.
	frontends []Frontend
	external  bool         // asks for one that is not a cluster IP
	lost      []Frontend   // those reported as another's, sorted
	out       *ServicePort // nil while it owns no frontend
}

// reclaim replaces the ports of s by those of its spec, moves their claims, marks
// the Services that win or lose a frontend by it, and appends to gone the keys
// that are no more.
func (t *Tracker) reclaim(s *service, gone []Key) []Key {
	s.respec = false
	old := make(map[Key]*port, len(s.ports))
	for _, p := range s.ports {
		old[p.key] = p
		for _, f := range p.frontends {
			t.markOwner(t.claims.remove(p.claim(f), p))
		}
	}
	s.ports = newPorts(s)
	for _, p := range s.ports {
		if before := old[p.key]; before != nil {
			p.out, p.lost = before.out, before.lost
			delete(old, p.key)
		}
		for _, f := range p.frontends {
			t.markOwner(t.claims.add(p.claim(f), p))
		}
	}
	for key, p := range old {
		if p.out != nil {
			gone = append(gone, key)
		}
	}
	return gone
}

func (t *Tracker) markOwner(p *port) {
	if p != nil {
		t.mark(p.service)
	}
}

// newPorts returns the ports of the spec of s, without their output.
func newPorts(s *service) []*port {
	if s.spec == nil {
		return nil
	}
	ports := make([]*port, 0, len(s.spec.ports)*len(s.spec.families))
	for _, ps := range s.spec.ports {
		for i := range s.spec.families {
			f := &s.spec.families[i]
			p := &port{
				key: Key{Family: f.family, PortName: PortName{
					Namespace: s.name.Namespace, Name: s.name.Name, Port: ps.name, Protocol: ps.protocol,
				}},
				service: s, created: s.spec.created, spec: f, frontends: frontends(f, ps),
			}
			p.external = slices.ContainsFunc(p.frontends, func(f Frontend) bool { return f.Kind.External() })
			ports = append(ports, p)
		}
	}
	return ports
}

// frontends returns what a port answers at in one family, ordered by kind, address
// and port. An address that is named twice counts once: as the cluster IP, else as
// the load balancer's, whose source ranges then hold for it.
func frontends(f *familySpec, p portSpec) []Frontend {
	out := make([]Frontend, 0, 2+len(f.balancers)+len(f.external))
	known := make(map[netip.Addr]bool, cap(out))
	add := func(kind FrontendKind, addrs ...netip.Addr) {
		for _, a := range addrs {
			if !known[a] {
				known[a] = true
				out = append(out, Frontend{Kind: kind, Addr: a, Port: p.port})
			}
		}
	}
	add(ClusterIP, f.clusterIP)
	add(LoadBalancer, f.balancers...)
	add(ExternalIP, f.external...)
	if p.nodePort != 0 {
		out = append(out, Frontend{Kind: NodePort, Port: p.nodePort})
	}
	slices.SortFunc(out, compareFrontends)
	return out
}

func compareFrontends(a, b Frontend) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), a.Addr.Compare(b.Addr), cmp.Compare(a.Port, b.Port))
}

// build computes the ServicePort of p, nil if p owns no frontend. What did not
// change is shared with the value before.
func (t *Tracker) build(p *port) *ServicePort {
	owned := t.owned(p)
	if len(owned) == 0 {
		return nil
	}
	spec := p.service.spec
	c := t.merge(p)
	sp := &ServicePort{
		Key: p.key, Frontends: owned, HasEndpoints: usable(c),
		ExternalLocal: spec.externalLocal && p.external, InternalLocal: spec.internalLocal,
		Affinity: spec.affinity, HealthCheckNodePort: spec.healthCheckNodePort, Balance: spec.balance,
	}
	if slices.ContainsFunc(owned, func(f Frontend) bool { return f.Kind == LoadBalancer }) {
		sp.SourceRanges = p.spec.sourceRanges
	}
	var before ServicePort
	if p.out != nil {
		before = *p.out
	}
	// Policy Cluster is needed for what is not Local, and under
	// externalTrafficPolicy Local for pods and processes of this node.
	if !sp.InternalLocal || p.external {
		t.endpoints = selectCluster(t.endpoints[:0], c, t.cfg.Node.Zone)
		sp.Cluster = keep(before.Cluster, t.endpoints)
	}
	// A load balancer asks for those of this node wherever it has its addresses.
	if sp.InternalLocal || sp.ExternalLocal || sp.HealthCheckNodePort != 0 {
		t.endpoints = selectLocal(t.endpoints[:0], c)
		sp.Local = keep(before.Local, t.endpoints)
		sp.LocalDraining = len(sp.Local) > 0 && !readyHere(c)
	}
	if p.key.Protocol == UDP {
		sp.Serving = servingOf(before.Serving, c)
	}
	return sp
}

// keep returns before if it equals now, else a copy of now.
func keep(before, now []Endpoint) []Endpoint {
	if slices.Equal(before, now) {
		return before
	}
	return slices.Clone(now)
}

// merge returns the endpoints of p from all its slices, sorted, each address once.
// The result is valid until the next call.
func (t *Tracker) merge(p *port) []candidate {
	c := t.candidates[:0]
	for _, s := range p.service.slices {
		n, ok := s.port(p.key.Port, p.key.Protocol)
		if !ok || s.family != p.key.Family {
			continue
		}
		for _, e := range s.endpoints {
			c = append(c, candidate{addr: netip.AddrPortFrom(e.addr, n), endpoint: e})
		}
	}
	t.candidates = c
	return dedupe(c)
}

// owned returns the frontends that p owns and reports those it newly does not.
func (t *Tracker) owned(p *port) []Frontend {
	lost := 0
	for _, f := range p.frontends {
		if t.claims.owner[p.claim(f)] != p {
			lost++
		}
	}
	if lost == 0 {
		p.lost = nil
		return p.frontends
	}
	owned := make([]Frontend, 0, len(p.frontends)-lost)
	now := make([]Frontend, 0, lost)
	for _, f := range p.frontends {
		owner := t.claims.owner[p.claim(f)]
		if owner == p {
			owned = append(owned, f)
			continue
		}
		now = append(now, f)
		if _, known := slices.BinarySearchFunc(p.lost, f, compareFrontends); !known {
			t.cfg.Report(conflict(p, f, owner))
		}
	}
	p.lost = now
	return owned
}

func conflict(p *port, f Frontend, owner *port) Problem {
	field := map[FrontendKind]string{
		ClusterIP: "spec.clusterIPs", NodePort: "spec.ports.nodePort",
		ExternalIP: "spec.externalIPs", LoadBalancer: "status.loadBalancer.ingress",
	}[f.Kind]
	why := "comes first by name"
	if owner.created != p.created {
		why = "is older"
	}
	return Problem{
		Kind: "Service", Namespace: p.key.Namespace, Name: p.key.Name, Field: field,
		Reason: fmt.Sprintf("%s (%s) belongs to Service %s, which %s", f, p.key.Protocol, owner.key.PortName, why),
	}
}
