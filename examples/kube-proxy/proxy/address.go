package proxy

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// primaryAddrs returns the address of this node in each family that has one:
// bindAddress if it is one that others can reach, else the one from which the
// kernel would talk to the outside, else the first that an interface has.
func primaryAddrs(bindAddress string) []netip.Addr {
	var out []netip.Addr
	bind, err := netip.ParseAddr(bindAddress)
	fixed := err == nil && !bind.IsUnspecified() && !bind.IsLoopback()
	if fixed {
		out = append(out, bind)
	}
	// Addresses for documentation (RFC 5737, RFC 3849); nothing is sent to them.
	for _, probe := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} {
		v4 := netip.MustParseAddrPort(probe).Addr().Is4()
		if fixed && bind.Is4() == v4 {
			continue
		}
		if a, ok := sourceAddr(probe); ok {
			out = append(out, a)
		} else if a, ok := interfaceAddr(v4); ok {
			out = append(out, a)
		}
	}
	return out
}

// sourceAddr returns the local address of a socket towards probe.
func sourceAddr(probe string) (netip.Addr, bool) {
	conn, err := net.Dial("udp", probe)
	if err != nil {
		return netip.Addr{}, false
	}
	defer conn.Close()
	ap, err := netip.ParseAddrPort(conn.LocalAddr().String())
	a := ap.Addr().Unmap()
	return a, err == nil && a.IsGlobalUnicast()
}

func interfaceAddr(v4 bool) (netip.Addr, bool) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, false
	}
	for _, in := range addrs {
		p, err := netip.ParsePrefix(in.String())
		if err == nil && p.Addr().IsGlobalUnicast() && p.Addr().Is4() == v4 {
			return p.Addr(), true
		}
	}
	return netip.Addr{}, false
}

// answersNodePorts returns those of the node's addresses at which node ports answer, as
// the rules decide it: not at loopback, in prefixes or at one of primary, and at all of
// them in a family that has neither.
func answersNodePorts(local, primary []netip.Addr, prefixes []netip.Prefix) []netip.Addr {
	prefixes = slices.Clone(prefixes)
	for _, a := range primary {
		prefixes = append(prefixes, netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()))
	}
	out := []netip.Addr{}
	for _, a := range local {
		limited := slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Addr().Is4() == a.Is4() })
		admitted := slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
		if !a.IsLoopback() && (admitted || !limited) {
			out = append(out, a)
		}
	}
	return out
}

// localAddrs returns all addresses of the node's interfaces.
func localAddrs() ([]netip.Addr, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list the addresses of the node: %w", err)
	}
	return parsed(addrs), nil
}

func parsed(addrs []net.Addr) []netip.Addr {
	var out []netip.Addr
	for _, in := range addrs {
		if p, err := netip.ParsePrefix(in.String()); err == nil {
			out = append(out, p.Addr().Unmap())
		}
	}
	return out
}
