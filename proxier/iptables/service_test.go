package iptables

import (
	"net/netip"
	"slices"

	"github.com/nodekit-go/nodekit/proxier"
)

// servicePort returns a TCP ServicePort called name with a cluster IP and endpoints.
func servicePort(name, clusterIP string, endpoints ...string) *proxier.ServicePort {
	a := netip.MustParseAddr(clusterIP)
	p := &proxier.ServicePort{
		Key:          proxier.Key{PortName: proxier.PortName{Namespace: "ns", Name: name, Port: "http", Protocol: proxier.TCP}, Family: proxier.FamilyOf(a)},
		Frontends:    []proxier.Frontend{{Kind: proxier.ClusterIP, Addr: a, Port: 80}},
		HasEndpoints: len(endpoints) > 0,
	}
	p.Cluster = endpointsAt(endpoints...)
	return p
}

func endpointsAt(addrs ...string) []proxier.Endpoint {
	var out []proxier.Endpoint
	for _, a := range addrs {
		out = append(out, proxier.Endpoint{Addr: netip.MustParseAddrPort(a)})
	}
	return out
}

// with returns a changed copy of p.
func with(p *proxier.ServicePort, change func(*proxier.ServicePort)) *proxier.ServicePort {
	c := *p
	c.Frontends = slices.Clone(p.Frontends)
	change(&c)
	return &c
}

func vip(kind proxier.FrontendKind, addr string) proxier.Frontend {
	return proxier.Frontend{Kind: kind, Addr: netip.MustParseAddr(addr), Port: 80}
}

func nodePort(port uint16) proxier.Frontend {
	return proxier.Frontend{Kind: proxier.NodePort, Port: port}
}

func update(ports ...*proxier.ServicePort) proxier.Delta { return proxier.Delta{Update: ports} }

func remove(ports ...*proxier.ServicePort) proxier.Delta {
	var d proxier.Delta
	for _, p := range ports {
		d.Remove = append(d.Remove, p.Key)
	}
	return d
}

func prefixes(text ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range text {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func addrs(text ...string) []netip.Addr {
	var out []netip.Addr
	for _, s := range text {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}
