package iptables

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/nodekit-go/nodekit/proxier"
)

// admitAll returns what can be programmed, by family.
func (b *Backend) admitAll(ports []*proxier.ServicePort) map[proxier.Family][]*proxier.ServicePort {
	out := map[proxier.Family][]*proxier.ServicePort{}
	for _, p := range ports {
		if p, ok := b.admit(p); ok {
			out[p.Key.Family] = append(out[p.Key.Family], p)
		}
	}
	return out
}

// admit returns what of p can be programmed; false if nothing can. What cannot is
// reported.
func (b *Backend) admit(p *proxier.ServicePort) (*proxier.ServicePort, bool) {
	refuse := func(field, reason string) (*proxier.ServicePort, bool) {
		b.report(Problem{p.Key, field, reason})
		return nil, false
	}
	switch k := p.Key; {
	case !slices.Contains(b.cfg.Families, k.Family):
		return refuse("Key.Family", "this family is not programmed here")
	case !slices.Contains(b.families(), k.Family):
		return nil, false // Degraded was told
	case protocolName(k.Protocol) == "":
		return refuse("Key.Protocol", fmt.Sprintf("protocol %d is none of TCP, UDP, SCTP", k.Protocol))
	case !safe(k.PortName):
		return refuse("Key.PortName", fmt.Sprintf("%q has characters that the API does not admit", k.PortName))
	}
	if p.Balance != (proxier.Balance{}) {
		b.report(Problem{p.Key, "Balance", fmt.Sprintf("%s is for IPVS: one of the endpoints is drawn at random", p.Balance)})
	}
	if b.fits(p) {
		return p, true
	}
	return b.trim(p), true
}

// fits reports whether all addresses of p are of its family.
func (b *Backend) fits(p *proxier.ServicePort) bool {
	other := func(a netip.Addr) bool { return !fits(p.Key.Family, a) }
	return !slices.ContainsFunc(p.Frontends, func(f proxier.Frontend) bool { return f.Kind != proxier.NodePort && other(f.Addr) }) &&
		!slices.ContainsFunc(p.Cluster, func(e proxier.Endpoint) bool { return other(e.Addr.Addr()) }) &&
		!slices.ContainsFunc(p.Local, func(e proxier.Endpoint) bool { return other(e.Addr.Addr()) }) &&
		!slices.ContainsFunc(p.SourceRanges, func(r netip.Prefix) bool { return !r.IsValid() || other(r.Addr()) })
}

// fits reports whether an address can stand in rules of a family.
func fits(f proxier.Family, a netip.Addr) bool {
	return a.IsValid() && !a.Is4In6() && a.Zone() == "" && proxier.FamilyOf(a) == f
}

// trim returns a copy of p without addresses of another family: one of them would make
// iptables refuse everything.
func (b *Backend) trim(p *proxier.ServicePort) *proxier.ServicePort {
	keep := func(field string, a netip.Addr) bool {
		if fits(p.Key.Family, a) {
			return true
		}
		b.report(Problem{p.Key, field, fmt.Sprintf("%s is not an address of %s", a, p.Key.Family)})
		return false
	}
	c := *p
	c.Frontends = slices.DeleteFunc(slices.Clone(p.Frontends), func(f proxier.Frontend) bool {
		return f.Kind != proxier.NodePort && !keep("Frontends", f.Addr)
	})
	c.Cluster = slices.DeleteFunc(slices.Clone(p.Cluster), func(e proxier.Endpoint) bool { return !keep("Cluster", e.Addr.Addr()) })
	c.Local = slices.DeleteFunc(slices.Clone(p.Local), func(e proxier.Endpoint) bool { return !keep("Local", e.Addr.Addr()) })
	c.SourceRanges = slices.DeleteFunc(slices.Clone(p.SourceRanges), func(r netip.Prefix) bool {
		if r.IsValid() {
			return !keep("SourceRanges", r.Addr())
		}
		b.report(Problem{p.Key, "SourceRanges", fmt.Sprintf("%v is not a range", r)})
		return true
	})
	if len(p.SourceRanges) > 0 && len(c.SourceRanges) == 0 {
		// No range at all would admit everybody.
		b.report(Problem{p.Key, "SourceRanges", "no range is left: the load balancer addresses are not served"})
		c.Frontends = slices.DeleteFunc(c.Frontends, func(f proxier.Frontend) bool { return f.Kind == proxier.LoadBalancer })
	}
	return &c
}
