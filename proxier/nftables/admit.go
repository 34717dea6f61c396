package nftables

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/nodekit-go/nodekit/proxier"
)

// admit returns what of port can be programmed: port itself in nearly all
// cases, else a copy without what is invalid, which is reported. Whatever is
// wrong with one ServicePort, the kernel accepts what is left of it, so that
// the others of a transaction do not fail with it.
func admit(port *proxier.ServicePort, nodeAddrs []netip.Addr, report func(Problem)) *proxier.ServicePort {
	a := admission{port: port, out: port, report: report}
	a.frontends()
	a.endpoints("Cluster", port.Cluster, func(p *proxier.ServicePort) *[]proxier.Endpoint { return &p.Cluster })
	a.endpoints("Local", port.Local, func(p *proxier.ServicePort) *[]proxier.Endpoint { return &p.Local })
	a.sourceRanges(nodeAddrs)
	if b := port.Balance; b != (proxier.Balance{}) {
		a.problem("Balance", "%s is for IPVS: one of the endpoints is drawn at random", b)
	}
	return a.out
}

type admission struct {
	port   *proxier.ServicePort
	out    *proxier.ServicePort
	report func(Problem)
}

// edit returns a copy of port that may be changed.
func (a *admission) edit() *proxier.ServicePort {
	if a.out == a.port {
		c := *a.port
		a.out = &c
	}
	return a.out
}

func (a *admission) problem(field, format string, args ...any) {
	a.report(Problem{Key: a.port.Key, Field: field, Reason: fmt.Sprintf(format, args...)})
}

func (a *admission) frontends() {
	keep := make([]proxier.Frontend, 0, len(a.port.Frontends))
	known := make(map[netip.AddrPort]bool, len(a.port.Frontends))
	for i, f := range a.port.Frontends {
		why := a.frontendFault(f)
		at := netip.AddrPortFrom(f.Addr.Unmap(), f.Port)
		if why == "" && known[at] {
			why = "it stands here twice"
		}
		if why != "" {
			a.problem(fmt.Sprintf("Frontends[%d]", i), "%s is not programmed: %s", f, why)
			continue
		}
		known[at] = true
		f.Addr = at.Addr()
		keep = append(keep, f)
	}
	if !slices.Equal(keep, a.port.Frontends) {
		a.edit().Frontends = keep
	}
}

// frontendFault says what is wrong with f.
func (a *admission) frontendFault(f proxier.Frontend) string {
	switch f.Kind {
	case proxier.ClusterIP, proxier.ExternalIP, proxier.LoadBalancer:
		if !f.Addr.IsValid() || proxier.FamilyOf(f.Addr) != a.port.Key.Family || f.Addr.Zone() != "" {
			return fmt.Sprintf("not an address of %s", a.port.Key.Family)
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

// endpoints checks one of the lists; in returns that list of a ServicePort.
func (a *admission) endpoints(field string, list []proxier.Endpoint, in func(*proxier.ServicePort) *[]proxier.Endpoint) {
	if a.plain(list) {
		return
	}
	keep := make([]proxier.Endpoint, 0, len(list))
	seen := make(map[netip.AddrPort]bool, len(list))
	for i, e := range list {
		addr := e.Addr.Addr()
		e.Addr = netip.AddrPortFrom(addr.Unmap(), e.Addr.Port())
		switch {
		case !addr.IsValid() || proxier.FamilyOf(addr) != a.port.Key.Family || addr.Zone() != "":
			a.problem(fmt.Sprintf("%s[%d]", field, i), "endpoint %s is not used: not an address of %s", e.Addr, a.port.Key.Family)
		case e.Addr.Port() == 0:
			a.problem(fmt.Sprintf("%s[%d]", field, i), "endpoint %s is not used: port 0", e.Addr)
		case !seen[e.Addr]:
			seen[e.Addr] = true
			keep = append(keep, e)
		}
	}
	*in(a.edit()) = keep
}

// plain reports that a list is in order as it is: valid, sorted, without
// duplicates.
func (a *admission) plain(list []proxier.Endpoint) bool {
	v4 := a.port.Key.Family == proxier.IPv4
	for i, e := range list {
		addr := e.Addr.Addr()
		if !addr.IsValid() || addr.Is4() != v4 || addr.Is4In6() || addr.Zone() != "" || e.Addr.Port() == 0 {
			return false
		}
		if i > 0 && list[i-1].Addr.Compare(e.Addr) >= 0 {
			return false
		}
	}
	return true
}

// sourceRanges makes the ranges disjoint, as the kernel wants them. When none is
// left the load balancer addresses admit nobody rather than everybody.
func (a *admission) sourceRanges(nodeAddrs []netip.Addr) {
	if len(a.port.SourceRanges) == 0 {
		return
	}
	var ranges []netip.Prefix
	for i, r := range a.port.SourceRanges {
		if !r.IsValid() || proxier.FamilyOf(proxier.UnmapPrefix(r).Addr()) != a.port.Key.Family {
			a.problem(fmt.Sprintf("SourceRanges[%d]", i), "%v is not a prefix of %s", r, a.port.Key.Family)
			continue
		}
		ranges = append(ranges, proxier.UnmapPrefix(r))
	}
	if len(ranges) == 0 {
		a.problem("SourceRanges", "no range is valid: the load balancer addresses are not programmed")
		out := a.edit()
		out.SourceRanges = nil
		out.Frontends = slices.DeleteFunc(slices.Clone(out.Frontends),
			func(f proxier.Frontend) bool { return f.Kind == proxier.LoadBalancer })
		return
	}
	ranges = disjoint(a.withOwn(ranges, nodeAddrs))
	if !slices.Equal(ranges, a.port.SourceRanges) {
		a.edit().SourceRanges = ranges
	}
}

// withOwn adds the load balancer addresses if the node may connect: its own
// connections have them as the source.
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
	slices.SortFunc(sorted, func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits()
	})
	out := sorted[:0]
	for _, p := range sorted {
		if len(out) > 0 && out[len(out)-1].Overlaps(p) {
			continue
		}
		out = append(out, p)
	}
	return out
}
