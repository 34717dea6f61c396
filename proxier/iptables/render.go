package iptables

import (
	"bytes"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nodekit-go/nodekit/proxier"
)

// renderer renders ServicePorts of one family.
type renderer struct {
	family        proxier.Family
	masqueradeAll bool
	pods          podMatch
	nodeAddr      netip.Addr // invalid if unknown
	// countLocal counts connections to node ports at 127.0.0.1.
	countLocal bool
	// chances are the texts of probabilities 1/n, by n.
	chances []string
}

// usesLocal reports whether anything leads to the local endpoints of p: they may be there
// for the health check alone.
func usesLocal(p *proxier.ServicePort) bool { return p.InternalLocal || p.ExternalLocal }

// rendering is a ServicePort while it is rendered.
type rendering struct {
	*renderer
	*block
	*proxier.ServicePort
	protocol string
	hash     hash
	// terse leaves out comments of endpoints, which are most of the text.
	terse bool
}

// render fills b with what p has; nothing for a nil p.
func (r *renderer) render(b *block, p *proxier.ServicePort, terse bool) {
	b.reset()
	if p == nil {
		return
	}
	s := rendering{renderer: r, block: b, ServicePort: p, protocol: protocolName(p.Key.Protocol), terse: terse}
	b.name = appendName(b.name, p.Key.PortName)
	s.hash = s.hashWith(nil)
	b.cluster = s.endpoints(b.cluster, p.Cluster)
	if usesLocal(p) {
		b.local = s.endpoints(b.local, p.Local)
	}
	for _, f := range p.Frontends {
		s.frontend(f)
	}
	s.healthCheck()
	if !p.HasEndpoints {
		return
	}
	s.external()
	s.firewall()
	s.policy(clusterChain, b.cluster)
	s.policy(localChain, b.local)
	s.endpointChains()
}

// appendName appends "ns/name:port" as proxier.PortName prints it.
func appendName(b []byte, n proxier.PortName) []byte {
	b = append(append(append(b, n.Namespace...), '/'), n.Name...)
	if n.Port != "" {
		b = append(append(b, ':'), n.Port...)
	}
	return b
}

// hashWith hashes the ServicePort and the "address:port" of an endpoint.
func (s *rendering) hashWith(endpoint []byte) hash {
	start := len(s.buf)
	s.buf = append(append(append(s.buf, s.name...), s.protocol...), endpoint...)
	h := hashOf(s.buf[start:])
	s.buf = s.buf[:start]
	return h
}

func (s *rendering) chain(k chainKind) chainName { return chainName{k, s.hash} }

// endpoints fills in the texts of endpoints and orders by them, as kube-proxy does.
func (s *rendering) endpoints(out []endpointText, in []proxier.Endpoint) []endpointText {
	for _, e := range in {
		t := endpointText{addr: e.Addr.Addr(), start: len(s.addrs)}
		s.addrs = e.Addr.AppendTo(s.addrs)
		t.end = len(s.addrs)
		t.chain = chainName{endpointChain, s.hashWith(s.addrs[t.start:t.end])}
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b endpointText) int { return bytes.Compare(s.at(a), s.at(b)) })
	return out
}

func (s *rendering) at(e endpointText) []byte { return s.addrs[e.start:e.end] }

// list returns the endpoints that a policy allows, and its chain.
func (s *rendering) list(isLocal bool) ([]endpointText, chainName) {
	if isLocal {
		return s.local, s.chain(localChain)
	}
	return s.cluster, s.chain(clusterChain)
}

// internal and externalPolicy are where the two traffic policies lead to.
func (s *rendering) internal() ([]endpointText, chainName)       { return s.list(s.InternalLocal) }
func (s *rendering) externalPolicy() ([]endpointText, chainName) { return s.list(s.ExternalLocal) }

// frontend writes what the shared chains have for a frontend.
func (s *rendering) frontend(f proxier.Frontend) {
	switch f.Kind {
	case proxier.ClusterIP:
		if reachable, to := s.internal(); s.HasEndpoints && len(reachable) > 0 {
			s.portal(f, " cluster IP", to)
		} else {
			s.refuse(filterServices, f)
		}
		return
	case proxier.ExternalIP:
		if s.HasEndpoints {
			s.portal(f, " external IP", s.chain(externalChain))
		}
	case proxier.LoadBalancer:
		s.loadBalancer(f)
	case proxier.NodePort:
		if s.HasEndpoints {
			s.nodePort(f)
		}
	}
	if reachable, _ := s.externalPolicy(); !s.HasEndpoints || len(reachable) == 0 {
		s.refuse(filterExternal, f)
	}
}

// portal writes the rule that leads from an address and port to a chain.
func (s *rendering) portal(f proxier.Frontend, what string, to chainName) {
	s.share(natServices)
	s.host(" -d ", f.Addr)
	s.proto()
	s.comment("", what)
	s.port(s.protocol, f.Port)
	s.shareTo(to)
}

func (s *rendering) proto() {
	s.text(" -p ")
	s.text(s.protocol)
}

func (s *rendering) loadBalancer(f proxier.Frontend) {
	if !s.HasEndpoints {
		return
	}
	if len(s.SourceRanges) == 0 {
		s.portal(f, " loadbalancer IP", s.chain(externalChain))
		return
	}
	to := s.chain(firewallChain)
	s.portal(f, " loadbalancer IP", to)
	s.share(filterFirewall)
	s.host(" -d ", f.Addr)
	s.proto()
	s.text(` -m comment --comment "`)
	s.buf = append(s.buf, s.name...)
	s.text(" traffic not accepted by ")
	s.buf = to.append(s.buf)
	s.text(`"`)
	s.port(s.protocol, f.Port)
	s.shareEnd("DROP")
}

// nodePort writes the rule of a node port; where connections to 127.0.0.1 are
// counted, one for them goes before it.
func (s *rendering) nodePort(f proxier.Frontend) {
	to := s.chain(externalChain)
	if s.countLocal && s.family == proxier.IPv4 {
		s.share(natNodePorts)
		s.text(" -d " + loopback4)
		s.proto()
		s.comment("", "")
		s.port(s.protocol, f.Port)
		s.text(" -m nfacct --nfacct-name  " + localNodePortCounter)
		s.shareTo(to)
	}
	s.share(natNodePorts)
	s.proto()
	s.comment("", "")
	s.port(s.protocol, f.Port)
	s.shareTo(to)
}

// refuse writes the rule for a frontend that leads nowhere: who asks is told if there
// is no endpoint at all, and gets no answer if a policy is the reason.
func (s *rendering) refuse(c sharedChain, f proxier.Frontend) {
	s.share(c)
	if f.Kind != proxier.NodePort {
		s.host(" -d ", f.Addr)
	}
	s.proto()
	if s.HasEndpoints {
		s.comment("", " has no local endpoints")
	} else {
		s.comment("", " has no endpoints")
	}
	if f.Kind == proxier.NodePort {
		s.text(" -m addrtype --dst-type LOCAL")
	}
	s.port(s.protocol, f.Port)
	switch {
	case s.HasEndpoints:
		s.shareEnd("DROP")
	case s.family == proxier.IPv6:
		s.shareEnd("REJECT --reject-with icmp6-port-unreachable")
	default:
		s.shareEnd("REJECT --reject-with icmp-port-unreachable")
	}
}

// healthCheck lets load balancers ask on the health check port.
func (s *rendering) healthCheck() {
	if s.HealthCheckNodePort == 0 {
		return
	}
	s.share(filterNodePorts)
	s.text(" -p tcp")
	s.comment("", " health check node port")
	s.port("tcp", s.HealthCheckNodePort)
	s.shareEnd("ACCEPT")
}

// isExternal reports whether the ServicePort answers at more than its cluster IP.
func (s *rendering) isExternal() bool {
	return slices.ContainsFunc(s.Frontends, func(f proxier.Frontend) bool { return f.Kind.External() })
}

// external writes the chain of traffic from outside.
func (s *rendering) external() {
	if !s.isExternal() {
		return
	}
	to := s.chain(externalChain)
	s.open(to)
	defer s.close()
	if !s.ExternalLocal {
		s.begin(to)
		s.comment("masquerade traffic for ", " external destinations")
		s.jump(markChain)
	} else if len(s.cluster) > 0 {
		s.shortCircuit(to)
	}
	if reachable, policy := s.externalPolicy(); len(reachable) > 0 {
		s.begin(to)
		s.jumpTo(policy)
	}
}

// shortCircuit lets pods and processes of this node use every endpoint, as if they
// had asked for the cluster IP.
func (s *rendering) shortCircuit(to chainName) {
	all := s.chain(clusterChain)
	if s.pods.detects() {
		s.begin(to)
		s.podSource(s.pods, false)
		s.podInterface(s.pods, false)
		s.comment("pod traffic for ", " external destinations")
		s.jumpTo(all)
	}
	s.begin(to)
	s.comment("masquerade LOCAL traffic for ", " external destinations")
	s.text(" -m addrtype --src-type LOCAL")
	s.jump(markChain)
	s.begin(to)
	s.comment("route LOCAL traffic for ", " external destinations")
	s.text(" -m addrtype --src-type LOCAL")
	s.jumpTo(all)
}

// firewall writes the chain of the source ranges. What leaves it at its end has kept
// its destination, and is dropped by the shared chain for that.
func (s *rendering) firewall() {
	balanced := func(f proxier.Frontend) bool { return f.Kind == proxier.LoadBalancer }
	if len(s.SourceRanges) == 0 || !slices.ContainsFunc(s.Frontends, balanced) {
		return
	}
	to := s.chain(firewallChain)
	s.open(to)
	defer s.close()
	allow := func(p netip.Prefix) {
		s.begin(to)
		s.prefix(" -s ", p)
		s.comment("", " loadbalancer IP")
		s.jumpTo(s.chain(externalChain))
	}
	fromNode := false
	for _, p := range s.SourceRanges {
		allow(p)
		fromNode = fromNode || p.Contains(s.nodeAddr)
	}
	// Where the node has a load balancer's address itself, its own connections come
	// from that.
	for _, f := range s.Frontends {
		if fromNode && balanced(f) {
			allow(netip.PrefixFrom(f.Addr, f.Addr.BitLen()))
		}
	}
	s.begin(to)
	s.comment("other traffic to ", " will be dropped by "+proxyFirewallChain)
	s.text("\n")
}

// policy writes a chain that leads to one of the endpoints.
func (s *rendering) policy(k chainKind, endpoints []endpointText) {
	if len(endpoints) == 0 {
		return
	}
	from := s.chain(k)
	s.open(from)
	defer s.close()
	if _, internal := s.internal(); internal == from {
		s.masqueradeForeign(from)
	}
	if s.Affinity > 0 {
		for _, e := range endpoints {
			s.begin(from)
			s.endpointComment(e)
			s.text(" -m recent --rcheck --seconds ")
			s.number(uint64(max(1, s.Affinity/time.Second)))
			s.text(" --reap --name ")
			s.buf = e.chain.append(s.buf)
			s.recentMask()
			s.jumpTo(e.chain)
		}
	}
	for i, e := range endpoints {
		s.begin(from)
		s.endpointComment(e)
		if left := len(endpoints) - i; left > 1 {
			s.text(" -m statistic --mode random --probability ")
			s.text(s.chance(left))
		}
		s.jumpTo(e.chain)
	}
}

// masqueradeForeign marks connections to the cluster IP that do not come from pods.
func (s *rendering) masqueradeForeign(from chainName) {
	if !s.masqueradeAll && !s.pods.detects() {
		return
	}
	var pods podMatch
	if !s.masqueradeAll {
		pods = s.pods
	}
	for _, f := range s.Frontends {
		if f.Kind != proxier.ClusterIP {
			continue
		}
		s.begin(from)
		s.podSource(pods, true)
		s.host(" -d ", f.Addr)
		s.podInterface(pods, true)
		s.proto()
		s.comment("", " cluster IP")
		s.port(s.protocol, f.Port)
		s.jump(markChain)
	}
}

func (s *rendering) endpointComment(e endpointText) {
	if s.terse {
		return
	}
	s.text(` -m comment --comment "`)
	s.buf = append(s.buf, s.name...)
	s.text(" -> ")
	s.buf = append(s.buf, s.at(e)...)
	s.text(`"`)
}

func (s *rendering) recentMask() {
	if s.family == proxier.IPv6 {
		s.text(" --mask ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff --rsource")
		return
	}
	s.text(" --mask 255.255.255.255 --rsource")
}

// endpointChains writes a chain for each endpoint, once if both policies have it.
func (s *rendering) endpointChains() {
	for _, e := range s.cluster {
		s.endpointChain(e)
	}
	for _, e := range s.local {
		_, both := slices.BinarySearchFunc(s.cluster, e, func(a, b endpointText) int { return bytes.Compare(s.at(a), s.at(b)) })
		if !both {
			s.endpointChain(e)
		}
	}
}

func (s *rendering) endpointChain(e endpointText) {
	s.open(e.chain)
	defer s.close()
	s.begin(e.chain)
	s.host(" -s ", e.addr)
	if !s.terse {
		s.comment("", "")
	}
	s.jump(markChain)
	s.begin(e.chain)
	s.proto()
	if !s.terse {
		s.comment("", "")
	}
	if s.Affinity > 0 {
		s.text(" -m recent --set --name ")
		s.buf = e.chain.append(s.buf)
		s.recentMask()
	}
	s.text(" -m ")
	s.text(s.protocol)
	s.text(" -j DNAT --to-destination ")
	s.buf = append(s.buf, s.at(e)...)
	s.text("\n")
}

// chance returns the probability 1/n.
func (r *renderer) chance(n int) string {
	for len(r.chances) <= n {
		r.chances = append(r.chances, chanceText(len(r.chances)))
	}
	return r.chances[n]
}

// chanceText is what iptables-save prints after kube-proxy has asked for 1/n: it writes
// ten decimals, of which the kernel keeps a multiple of 2⁻³¹ (probability of struct
// xt_statistic_info, linux/netfilter/xt_statistic.h).
func chanceText(n int) string {
	const one = 0x80000000
	asked, err := strconv.ParseFloat(strconv.FormatFloat(1/float64(max(n, 1)), 'f', 10, 64), 64)
	if err != nil {
		asked = 1 / float64(n)
	}
	return strconv.FormatFloat(math.Round(asked*one)/one, 'f', 11, 64)
}

// safe reports whether a name can stand in a rule: what the API admits does.
func safe(n proxier.PortName) bool {
	return plain(n.Namespace, "-.") && plain(n.Name, "-.") && plain(n.Port, "-.") && n.Namespace != "" && n.Name != "" &&
		!strings.HasPrefix(n.Name, "-")
}
