package ipvs

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/nodekit-go/nodekit/proxier"
)

// admit returns what of port can be programmed, nil if nothing can: port itself in nearly
// all cases, else a copy without what is invalid, which is reported. Whatever is wrong with
// one ServicePort, others do not fail with it.
func admit(port *proxier.ServicePort, families []proxier.Family, nodeAddrs []netip.Addr, report func(Problem)) *proxier.ServicePort {
	k := port.Key
	if !slices.Contains(families, k.Family) {
		report(Problem{k, "Key.Family", "this family is not programmed here"})
		return nil
	}
	if k.Protocol != proxier.TCP && k.Protocol != proxier.UDP && k.Protocol != proxier.SCTP {
		report(Problem{k, "Key.Protocol", fmt.Sprintf("protocol %d is none of TCP, UDP, SCTP", k.Protocol)})
		return nil
	}
	a := admission{key: k, out: *port, report: report}
	a.frontends()
	a.out.Cluster = a.endpoints("Cluster", port.Cluster)
	a.out.Local = a.endpoints("Local", port.Local)
	a.sourceRanges(nodeAddrs)
	return &a.out
}

type admission struct {
	key    proxier.Key
	out    proxier.ServicePort
	report func(Problem)
}

func (a *admission) problem(field, format string, args ...any) {
	a.report(Problem{Key: a.key, Field: field, Reason: fmt.Sprintf(format, args...)})
}

// usable reports whether an address is one of the family of the ServicePort.
func (a *admission) usable(addr netip.Addr) bool {
	return addr.IsValid() && addr.Zone() == "" && proxier.FamilyOf(addr) == a.key.Family
}

func (a *admission) frontends() {
	given := a.out.Frontends
	if !slices.ContainsFunc(given, func(f proxier.Frontend) bool { return a.frontendFault(f) != "" || f.Addr.Is4In6() }) {
		return
	}
	a.out.Frontends = nil
	for i, f := range given {
		if why := a.frontendFault(f); why != "" {
			a.problem(fmt.Sprintf("Frontends[%d]", i), "%s is not programmed: %s", f, why)
			continue
		}
		f.Addr = f.Addr.Unmap()
		a.out.Frontends = append(a.out.Frontends, f)
	}
}

// frontendFault says what is wrong with f.
func (a *admission) frontendFault(f proxier.Frontend) string {
	switch f.Kind {
	case proxier.ClusterIP, proxier.ExternalIP, proxier.LoadBalancer:
		if !a.usable(f.Addr) {
			return fmt.Sprintf("not an address of %s", a.key.Family)
		}
	case proxier.NodePort:
		if f.Addr.IsValid() {
			return "a node port has no address of its own"
		}
	default:
		return "unknown kind"
	}
	if f.Port == 0 {
		return "port 0"
	}
	return ""
}

// endpoints returns those that can be used, sorted by address, each once.
func (a *admission) endpoints(field string, given []proxier.Endpoint) []proxier.Endpoint {
	plain := slices.IsSortedFunc(given, byAddr)
	for i, e := range given {
		plain = plain && a.usable(e.Addr.Addr()) && !e.Addr.Addr().Is4In6() && e.Addr.Port() != 0 &&
			(i == 0 || given[i-1].Addr != e.Addr)
	}
	if plain {
		return given
	}
	var out []proxier.Endpoint
	for i, e := range given {
		e.Addr = netip.AddrPortFrom(e.Addr.Addr().Unmap(), e.Addr.Port())
		if !a.usable(e.Addr.Addr()) || e.Addr.Port() == 0 {
			a.problem(fmt.Sprintf("%s[%d]", field, i), "endpoint %s is not used: not an address of %s with a port", e.Addr, a.key.Family)
			continue
		}
		out = append(out, e)
	}
	slices.SortStableFunc(out, byAddr)
	return slices.CompactFunc(out, func(x, y proxier.Endpoint) bool { return x.Addr == y.Addr })
}

func byAddr(x, y proxier.Endpoint) int { return x.Addr.Compare(y.Addr) }

// sourceRanges makes the ranges disjoint, as the kernel wants them. When none is left the
// load balancer addresses admit nobody rather than everybody.
func (a *admission) sourceRanges(nodeAddrs []netip.Addr) {
	if len(a.out.SourceRanges) == 0 {
		return
	}
	var ranges []netip.Prefix
	for i, r := range a.out.SourceRanges {
		if !r.IsValid() || !a.usable(proxier.UnmapPrefix(r).Addr()) {
			a.problem(fmt.Sprintf("SourceRanges[%d]", i), "%v is not a prefix of %s", r, a.key.Family)
			continue
		}
		ranges = append(ranges, proxier.UnmapPrefix(r))
	}
	if len(ranges) > 0 {
		a.out.SourceRanges = disjoint(a.withOwn(ranges, nodeAddrs))
		return
	}
	a.problem("SourceRanges", "no range is valid: the load balancer addresses are not programmed")
	a.out.SourceRanges = nil
	a.out.Frontends = slices.DeleteFunc(slices.Clone(a.out.Frontends),
		func(f proxier.Frontend) bool { return f.Kind == proxier.LoadBalancer })
}

// withOwn adds the load balancer addresses if the node may connect: its own connections
// have them as the source.
func (a *admission) withOwn(ranges []netip.Prefix, nodeAddrs []netip.Addr) []netip.Prefix {
	admitted := slices.ContainsFunc(nodeAddrs, func(addr netip.Addr) bool {
		return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(addr.Unmap()) })
	})
	if !admitted {
		return ranges
	}
	for _, f := range a.out.Frontends {
		if f.Kind == proxier.LoadBalancer {
			ranges = append(ranges, netip.PrefixFrom(f.Addr, f.Addr.BitLen()))
		}
	}
	return ranges
}

// disjoint sorts prefixes and drops those that another contains.
func disjoint(in []netip.Prefix) []netip.Prefix {
	sorted := slices.Clone(in)
	slices.SortFunc(sorted, netip.Prefix.Compare)
	out := sorted[:0]
	for _, p := range sorted {
		if len(out) == 0 || !out[len(out)-1].Overlaps(p) {
			out = append(out, p)
		}
	}
	return out
}
