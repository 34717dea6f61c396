package proxier

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Query is a connection to ask Explain about.
type Query struct {
	// Addr is where the client connects to.
	Addr     netip.AddrPort
	Protocol Protocol
	// NodePortAddrs are the addresses of this node at which node ports answer; nil means
	// Network.NodeAddrs of the State.
	NodePortAddrs []netip.Addr
	// Unguarded says that the Backend has no rules for ports that a cluster IP does not
	// have and for cluster IPs that no Service has, as mode iptables.
	Unguarded bool
}

// Explanation is what becomes of a connection, and why.
type Explanation struct {
	// Port is the ServicePort that answers at the address; nil if none does.
	Port *ServicePort
	// Frontend is the one of its addresses that was asked.
	Frontend Frontend
	// Ways are what becomes of connections by where they come from.
	Ways []Way
}

// Way is what becomes of connections from somewhere.
type Way struct {
	// From says where they come from.
	From string
	// To are the endpoints of which one is drawn, each as likely; empty when the
	// connection is refused or dropped.
	To []Endpoint
	// Verdict is "balanced", "refused", "dropped" or "routed", and Why the reason.
	Verdict string
	Why     string
}

// Explain returns what becomes of a connection under s. It is a pure function: what
// the kernel has is not asked. An address that no ServicePort has is looked up among
// node ports, if it is one at which they answer.
func Explain(s *State, q Query) Explanation {
	q.Addr = netip.AddrPortFrom(q.Addr.Addr().Unmap(), q.Addr.Port())
	if q.NodePortAddrs == nil {
		q.NodePortAddrs = s.Network.NodeAddrs
	}
	if p, f := q.find(s, func(f Frontend) bool { return f.Addr == q.Addr.Addr() && f.Port == q.Addr.Port() }); p != nil {
		return Explanation{Port: p, Frontend: f, Ways: waysOf(p, f)}
	}
	p, f := q.find(s, func(f Frontend) bool { return f.Kind == NodePort && f.Port == q.Addr.Port() })
	if p != nil && slices.Contains(q.NodePortAddrs, q.Addr.Addr()) {
		return Explanation{Port: p, Frontend: f, Ways: waysOf(p, f)}
	}
	return Explanation{Ways: []Way{unknown(s, q, p)}}
}

// find returns the first frontend of the family and protocol of q that is accepts.
func (q Query) find(s *State, is func(Frontend) bool) (*ServicePort, Frontend) {
	for _, p := range s.Ports {
		if p.Key.Protocol != q.Protocol || p.Key.Family != FamilyOf(q.Addr.Addr()) {
			continue
		}
		if i := slices.IndexFunc(p.Frontends, is); i >= 0 {
			return p, p.Frontends[i]
		}
	}
	return nil, Frontend{}
}

// unknown explains a connection to what no ServicePort answers at; elsewhere is the one
// that has the port as its node port, if any.
func unknown(s *State, q Query, elsewhere *ServicePort) Way {
	a := q.Addr.Addr()
	for _, p := range s.Ports {
		for _, f := range p.Frontends {
			if f.Kind == ClusterIP && f.Addr == a {
				return q.unserved("refused", fmt.Sprintf(
					"%s is a cluster IP of %s/%s, which has no %s port %d", a, p.Key.Namespace, p.Key.Name, q.Protocol, q.Addr.Port()))
			}
		}
	}
	if slices.ContainsFunc(s.Network.ServiceCIDRs, func(r netip.Prefix) bool { return r.Contains(a) }) {
		return q.unserved("dropped", "no Service has this address of a range of cluster IPs")
	}
	if elsewhere != nil {
		return Way{From: "anywhere", Verdict: "routed", Why: fmt.Sprintf(
			"%d is the node port of %s, but node ports do not answer at %s", q.Addr.Port(), elsewhere.Key.PortName, a)}
	}
	return Way{From: "anywhere", Verdict: "routed", Why: "it is no address of a Service"}
}

// unserved explains a connection to a cluster IP that no frontend is at.
func (q Query) unserved(verdict, why string) Way {
	if q.Unguarded {
		return Way{From: "anywhere", Verdict: "routed", Why: why + "; this mode has no rule for that"}
	}
	return Way{From: "anywhere", Verdict: verdict, Why: why}
}

// waysOf explains a connection to a frontend of p.
func waysOf(p *ServicePort, f Frontend) []Way {
	if !p.HasEndpoints {
		return []Way{{From: "anywhere", Verdict: "refused", Why: "there is no ready endpoint on any node"}}
	}
	var ways []Way
	from, here, elsewhere := "anywhere", "pods and processes of this node", "elsewhere"
	if f.Kind == LoadBalancer && len(p.SourceRanges) > 0 {
		from = fmt.Sprintf("a source in %v", p.SourceRanges)
		here, elsewhere = here+", "+from, elsewhere+", "+from
		ways = append(ways, Way{From: "other sources", Verdict: "dropped", Why: "loadBalancerSourceRanges does not admit them"})
	}
	switch {
	case f.Kind.External() && p.ExternalLocal:
		return append([]Way{
			to(here, p.Cluster, "externalTrafficPolicy Local does not hold for them"),
			to(elsewhere, p.Local, "externalTrafficPolicy is Local: endpoints of this node alone"),
		}, ways...)
	case f.Kind.External():
		return append([]Way{to(from, p.Cluster, "externalTrafficPolicy is Cluster: masqueraded")}, ways...)
	case p.InternalLocal:
		return append(ways, to(from, p.Local, "internalTrafficPolicy is Local: endpoints of this node alone"))
	}
	return append(ways, to(from, p.Cluster, "all endpoints that topology and readiness admit"))
}

func to(from string, endpoints []Endpoint, why string) Way {
	if len(endpoints) == 0 {
		return Way{From: from, Verdict: "dropped", Why: why + ", and there is none"}
	}
	return Way{From: from, To: endpoints, Verdict: "balanced", Why: why}
}

// String returns e on several lines for a terminal.
func (e Explanation) String() string {
	var b strings.Builder
	if e.Port != nil {
		fmt.Fprintf(&b, "%s of Service %s\n", e.Frontend, e.Port.Key)
		if e.Port.Affinity > 0 {
			fmt.Fprintf(&b, "  a client keeps its endpoint for %v after its last connection\n", e.Port.Affinity)
		}
	}
	for _, w := range e.Ways {
		fmt.Fprintf(&b, "  from %s: %s: %s\n", w.From, w.Verdict, w.Why)
		for _, ep := range w.To {
			fmt.Fprintf(&b, "    %s, 1 in %d\n", ep, len(w.To))
		}
	}
	return b.String()
}
