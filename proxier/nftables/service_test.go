package nftables

import (
	"net/netip"
	"slices"
	"time"

	"github.com/nodekit-go/nodekit/proxier"
)

// option changes a ServicePort of a test.
type option func(*proxier.ServicePort)

// service returns a ServicePort with one cluster IP, whose endpoints come from
// options.
func service(name string, proto proxier.Protocol, vip string, opts ...option) *proxier.ServicePort {
	addr := netip.MustParseAddrPort(vip)
	p := &proxier.ServicePort{
		Key: proxier.Key{
			PortName: proxier.PortName{Namespace: "default", Name: name, Port: "web", Protocol: proto},
			Family:   proxier.FamilyOf(addr.Addr()),
		},
		Frontends: []proxier.Frontend{{Kind: proxier.ClusterIP, Addr: addr.Addr(), Port: addr.Port()}},
	}
	for _, o := range opts {
		o(p)
	}
	return p
}

// on adds endpoints on this node, far adds endpoints on others.
func on(addrs ...string) option  { return func(p *proxier.ServicePort) { add(p, true, addrs) } }
func far(addrs ...string) option { return func(p *proxier.ServicePort) { add(p, false, addrs) } }

func add(p *proxier.ServicePort, isLocal bool, addrs []string) {
	for _, a := range addrs {
		e := proxier.Endpoint{Addr: netip.MustParseAddrPort(a), Local: isLocal}
		p.Cluster = append(p.Cluster, e)
		if isLocal {
			p.Local = append(p.Local, e)
		}
	}
	byAddr := func(a, b proxier.Endpoint) int { return a.Addr.Compare(b.Addr) }
	slices.SortFunc(p.Cluster, byAddr)
	slices.SortFunc(p.Local, byAddr)
	p.HasEndpoints = p.HasEndpoints || len(addrs) > 0
}

// at adds a frontend; an empty address is that of a node port.
func at(kind proxier.FrontendKind, addr string, port uint16) option {
	return func(p *proxier.ServicePort) {
		f := proxier.Frontend{Kind: kind, Port: port}
		if addr != "" {
			f.Addr = netip.MustParseAddr(addr)
		}
		p.Frontends = append(p.Frontends, f)
	}
}

func externalPolicyLocal(p *proxier.ServicePort) { p.ExternalLocal = true }
func internalPolicyLocal(p *proxier.ServicePort) { p.InternalLocal = true }

func sticky(timeout time.Duration) option {
	return func(p *proxier.ServicePort) { p.Affinity = timeout }
}

func sources(prefixes ...string) option {
	return func(p *proxier.ServicePort) {
		for _, s := range prefixes {
			p.SourceRanges = append(p.SourceRanges, netip.MustParsePrefix(s))
		}
	}
}
