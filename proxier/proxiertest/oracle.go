package proxiertest

import (
	"net/netip"
	"slices"

	"github.com/nodekit-go/nodekit/proxier"
)

// predict returns what becomes of connections by reading the desired state like a
// person would: find the ServicePort, apply its policies. It says nothing, false, about
// a frontend that no ServicePort has.
func predict(s *proxier.State, from Host, kind proxier.FrontendKind, protocol proxier.Protocol, to netip.AddrPort) (expectation, bool) {
	family := proxier.FamilyOf(to.Addr())
	for _, sp := range s.Ports {
		if sp.Key.Family != family || sp.Key.Protocol != protocol {
			continue
		}
		for _, f := range sp.Frontends {
			if f.Kind == kind && f.Port == to.Port() && (kind == proxier.NodePort || f.Addr == to.Addr()) {
				return predictPort(sp, kind, from), true
			}
		}
	}
	return expectation{}, false
}

func predictPort(sp *proxier.ServicePort, kind proxier.FrontendKind, from Host) expectation {
	if kind == proxier.LoadBalancer && len(sp.SourceRanges) > 0 &&
		!slices.ContainsFunc(sp.SourceRanges, func(p netip.Prefix) bool { return p.Contains(from.Addr(sp.Key.Family)) }) {
		return expect(dropped)
	}
	endpoints, masquerade := choose(sp, kind, from)
	if !sp.HasEndpoints {
		return expect(refused)
	}
	if len(endpoints) == 0 {
		return expect(dropped)
	}
	e := expectation{fate: served, masqueraded: masquerade}
	for _, ep := range endpoints {
		for h := Pod1; h <= Far2; h++ {
			if h.Addr(sp.Key.Family) == ep.Addr.Addr() {
				e.among = append(e.among, h)
			}
		}
	}
	return e
}

// choose applies the traffic policies.
func choose(sp *proxier.ServicePort, kind proxier.FrontendKind, from Host) (endpoints []proxier.Endpoint, masquerade bool) {
	isPod := from >= Pod1
	switch {
	case kind == proxier.ClusterIP && sp.InternalLocal:
		return sp.Local, !isPod
	case kind == proxier.ClusterIP:
		return sp.Cluster, !isPod
	case !sp.ExternalLocal:
		return sp.Cluster, true
	case isPod || from == OurNode: // as good as the cluster IP
		return sp.Cluster, !isPod
	}
	return sp.Local, false
}
