package proxiertest

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"sort"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/nodekit-go/nodekit/proxier"
)

// Expect returns the desired state of node for these objects. It is written for
// being obvious: one pass over everything, nothing kept. The objects must be
// valid; what a Tracker reports as a Problem is not its business, except that two
// Services may ask for one frontend.
func Expect(node proxier.Node, services []*corev1.Service, slices []*discoveryv1.EndpointSlice) *proxier.State {
	var ports []*proxier.ServicePort
	created := map[proxier.Key]int64{}
	for _, svc := range services {
		if svc.Spec.ClusterIP == "" || svc.Spec.ClusterIP == "None" || svc.Spec.Type == corev1.ServiceTypeExternalName {
			continue
		}
		if _, other := svc.Labels[proxier.LabelServiceProxyName]; other {
			continue
		}
		for _, family := range []proxier.Family{proxier.IPv4, proxier.IPv6} {
			for _, port := range svc.Spec.Ports {
				if sp := expectPort(node, svc, port, family, slices); sp != nil {
					ports = append(ports, sp)
					created[sp.Key] = 0
					if !svc.CreationTimestamp.IsZero() {
						created[sp.Key] = svc.CreationTimestamp.Unix()
					}
				}
			}
		}
	}
	return &proxier.State{Ports: expectOwners(ports, created)}
}

// expectOwners hands out the frontends, oldest Service first, and drops who gets
// none.
func expectOwners(ports []*proxier.ServicePort, created map[proxier.Key]int64) []*proxier.ServicePort {
	sort.Slice(ports, func(i, j int) bool {
		a, b := ports[i].Key, ports[j].Key
		if created[a] != created[b] {
			return created[a] < created[b]
		}
		return a.Compare(b) < 0
	})
	taken := map[string]bool{}
	var out []*proxier.ServicePort
	for _, sp := range ports {
		var got []proxier.Frontend
		balanced := false
		for _, f := range sp.Frontends {
			id := fmt.Sprint(f.Addr, f.Port, sp.Key.Protocol, sp.Key.Family)
			if !taken[id] {
				taken[id] = true
				got = append(got, f)
				balanced = balanced || f.Kind == proxier.LoadBalancer
			}
		}
		if !balanced {
			sp.SourceRanges = nil
		}
		if sp.Frontends = got; len(got) > 0 {
			out = append(out, sp)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Key.Compare(out[j].Key) < 0 })
	return out
}

func expectPort(node proxier.Node, svc *corev1.Service, port corev1.ServicePort, family proxier.Family,
	all []*discoveryv1.EndpointSlice,
) *proxier.ServicePort {
	sp := &proxier.ServicePort{Key: proxier.Key{Family: family, PortName: proxier.PortName{
		Namespace: svc.Namespace, Name: svc.Name, Port: port.Name, Protocol: protocolOf(port.Protocol),
	}}}
	sp.Frontends = expectFrontends(svc, port, family)
	if sp.Frontends == nil {
		return nil
	}
	external := len(sp.Frontends) > 1
	if p := svc.Spec.InternalTrafficPolicy; p != nil {
		sp.InternalLocal = *p == corev1.ServiceInternalTrafficPolicyLocal
	}
	sp.ExternalLocal = external && svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	if svc.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		sp.Affinity = time.Duration(*svc.Spec.SessionAffinityConfig.ClientIP.TimeoutSeconds) * time.Second
	}
	if svc.Spec.Type == corev1.ServiceTypeLoadBalancer && svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		sp.HealthCheckNodePort = uint16(svc.Spec.HealthCheckNodePort)
	}
	sp.SourceRanges = expectRanges(svc, family)

	eps := expectEndpoints(sp.Key, all)
	for _, e := range eps {
		sp.HasEndpoints = sp.HasEndpoints || isReady(e) || isDraining(e)
	}
	if external || !sp.InternalLocal {
		sp.Cluster = expectCluster(node, eps)
	}
	sp.Serving = expectServing(node, sp.Key, eps)
	if asksForLocal(sp) {
		here := filter(eps, func(e placed) bool { return isLocal(node, e) })
		sp.Local = endpoints(node, orElse(filter(here, isReady), filter(here, isDraining)))
		sp.LocalDraining = len(sp.Local) > 0 && len(filter(here, isReady)) == 0
	}
	return sp
}

func expectServing(node proxier.Node, key proxier.Key, eps []placed) []netip.AddrPort {
	if key.Protocol != proxier.UDP {
		return nil
	}
	var out []netip.AddrPort
	for _, e := range endpoints(node, filter(eps, func(e placed) bool { return isReady(e) || deref(e.Conditions.Serving, true) })) {
		out = append(out, e.Addr)
	}
	return out
}

func expectFrontends(svc *corev1.Service, port corev1.ServicePort, family proxier.Family) []proxier.Frontend {
	// Later kinds take an address over from earlier ones.
	kinds := map[netip.Addr]proxier.FrontendKind{}
	for _, s := range svc.Spec.ExternalIPs {
		kinds[netip.MustParseAddr(s)] = proxier.ExternalIP
	}
	for _, in := range svc.Status.LoadBalancer.Ingress {
		if in.IP != "" && (in.IPMode == nil || *in.IPMode == corev1.LoadBalancerIPModeVIP) {
			kinds[netip.MustParseAddr(in.IP)] = proxier.LoadBalancer
		}
	}
	ips := svc.Spec.ClusterIPs
	if len(svc.Spec.IPFamilies) == 0 {
		ips = []string{svc.Spec.ClusterIP}
	}
	for _, s := range ips {
		kinds[netip.MustParseAddr(s)] = proxier.ClusterIP
	}
	var out []proxier.Frontend
	for a, kind := range kinds {
		if a.Is4() == (family == proxier.IPv4) {
			out = append(out, proxier.Frontend{Kind: kind, Addr: a, Port: uint16(port.Port)})
		}
	}
	if !slices.ContainsFunc(out, func(f proxier.Frontend) bool { return f.Kind == proxier.ClusterIP }) {
		return nil // of the other family only
	}
	if port.NodePort != 0 {
		out = append(out, proxier.Frontend{Kind: proxier.NodePort, Port: uint16(port.NodePort)})
	}
	slices.SortFunc(out, func(a, b proxier.Frontend) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), a.Addr.Compare(b.Addr))
	})
	return out
}

func expectRanges(svc *corev1.Service, family proxier.Family) []netip.Prefix {
	set := map[netip.Prefix]bool{}
	for _, s := range svc.Spec.LoadBalancerSourceRanges {
		if p := netip.MustParsePrefix(strings.TrimSpace(s)).Masked(); p.Addr().Is4() == (family == proxier.IPv4) {
			set[p] = true
		}
	}
	var out []netip.Prefix
	for p := range set {
		if p.Bits() == 0 {
			return nil
		}
		out = append(out, p)
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return out
}

// placed is one entry of one slice at its address and port.
type placed struct {
	at netip.AddrPort
	discoveryv1.Endpoint
}

// expectEndpoints returns the endpoints of key by address. Of several entries for
// one address the best counts, of equally good ones the first by slice name.
func expectEndpoints(key proxier.Key, all []*discoveryv1.EndpointSlice) []placed {
	all = slices.Clone(all)
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	best := map[netip.AddrPort]placed{}
	for _, es := range all {
		_, headless := es.Labels[corev1.IsHeadlessService]
		if es.Namespace != key.Namespace || es.Labels[discoveryv1.LabelServiceName] != key.Name || headless ||
			string(es.AddressType) != key.Family.String() {
			continue
		}
		for _, p := range es.Ports {
			if p.Name == nil || *p.Name != key.Port || p.Port == nil || protocolOf(deref(p.Protocol, "TCP")) != key.Protocol {
				continue
			}
			for _, e := range es.Endpoints {
				at := netip.AddrPortFrom(netip.MustParseAddr(e.Addresses[0]), uint16(*p.Port))
				if old, known := best[at]; !known || better(e, old.Endpoint) {
					best[at] = placed{at, e}
				}
			}
		}
	}
	var out []placed
	for _, e := range best {
		out = append(out, e)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].at.Compare(out[j].at) < 0 })
	return out
}

func better(a, b discoveryv1.Endpoint) bool {
	if x, y := deref(a.Conditions.Terminating, false), deref(b.Conditions.Terminating, false); x != y {
		return y
	}
	if x, y := deref(a.Conditions.Ready, true), deref(b.Conditions.Ready, true); x != y {
		return x
	}
	return deref(a.Conditions.Serving, true) && !deref(b.Conditions.Serving, true)
}

func expectCluster(node proxier.Node, eps []placed) []proxier.Endpoint {
	readies := filter(eps, isReady)
	if len(readies) == 0 {
		return endpoints(node, filter(eps, isDraining))
	}
	forNode := filter(readies, func(e placed) bool { return e.Hints != nil && len(e.Hints.ForNodes) > 0 })
	here := filter(forNode, func(e placed) bool {
		return slices.Contains(e.Hints.ForNodes, discoveryv1.ForNode{Name: node.Name})
	})
	if len(forNode) == len(readies) && len(here) > 0 {
		return endpoints(node, here)
	}
	forZone := filter(readies, func(e placed) bool { return e.Hints != nil && len(e.Hints.ForZones) > 0 })
	near := filter(forZone, func(e placed) bool {
		return node.Zone != "" && slices.Contains(e.Hints.ForZones, discoveryv1.ForZone{Name: node.Zone})
	})
	if len(forZone) == len(readies) && len(near) > 0 {
		return endpoints(node, near)
	}
	return endpoints(node, readies)
}

func endpoints(node proxier.Node, eps []placed) []proxier.Endpoint {
	var out []proxier.Endpoint
	for _, e := range eps {
		out = append(out, proxier.Endpoint{Addr: e.at, Local: isLocal(node, e)})
	}
	return out
}

func isReady(e placed) bool { return deref(e.Conditions.Ready, true) }

func isDraining(e placed) bool {
	return deref(e.Conditions.Serving, true) && deref(e.Conditions.Terminating, false)
}

// asksForLocal reports whether a policy or a load balancer asks for endpoints of this node.
func asksForLocal(sp *proxier.ServicePort) bool {
	return sp.InternalLocal || sp.ExternalLocal || sp.HealthCheckNodePort != 0
}

func isLocal(node proxier.Node, e placed) bool { return e.NodeName != nil && *e.NodeName == node.Name }

func filter(eps []placed, ok func(placed) bool) []placed {
	var out []placed
	for _, e := range eps {
		if ok(e) {
			out = append(out, e)
		}
	}
	return out
}

func orElse(a, b []placed) []placed {
	if len(a) > 0 {
		return a
	}
	return b
}

func deref[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

func protocolOf(p corev1.Protocol) proxier.Protocol {
	return map[corev1.Protocol]proxier.Protocol{
		"": proxier.TCP, corev1.ProtocolTCP: proxier.TCP, corev1.ProtocolUDP: proxier.UDP, corev1.ProtocolSCTP: proxier.SCTP,
	}[p]
}
