package proxy

import (
	"net/netip"
	"slices"

	"github.com/nodekit-go/nodekit/proxier"
)

// unguarded returns a question about mode iptables: it has no rules for what no Service
// answers at, and node ports may answer at loopback addresses, too.
func unguarded(cfg Config, q proxier.Query, n proxier.Network) proxier.Query {
	q.Unguarded = true
	primary, prefixes := nodePortAddresses(cfg)
	if !primary {
		n.NodeAddrs = nil
	}
	a := q.Addr.Addr().Unmap()
	if *cfg.Proxy.IPTables.LocalhostNodePorts && a.Is4() && a.IsLoopback() && answersAtLoopback(a, n.NodeAddrs, prefixes) {
		q.NodePortAddrs = append(slices.Clone(q.NodePortAddrs), a)
	}
	return q
}

// answersAtLoopback reports whether node ports that may answer at IPv4 loopback addresses
// answer at one, as the rules decide it: at all of them, or where addresses limit node
// ports, at those that are named, of which an interface has 127.0.0.1 alone.
func answersAtLoopback(a netip.Addr, primary []netip.Addr, prefixes []netip.Prefix) bool {
	of4 := func(p netip.Prefix) bool { return p.Addr().Is4() }
	limited := slices.ContainsFunc(prefixes, of4) || slices.ContainsFunc(primary, func(p netip.Addr) bool { return p.Unmap().Is4() })
	if !limited || slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return of4(p) && p.Bits() == 0 }) {
		return true
	}
	return a == netip.AddrFrom4([4]byte{127, 0, 0, 1}) && slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}
