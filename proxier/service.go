package proxier

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
)

// LabelServiceProxyName is the label by which a Service asks for a proxy other
// than the default one
// (https://kubernetes.io/docs/reference/labels-annotations-taints/#servicekubernetesioservice-proxy-name).
const LabelServiceProxyName = "service.kubernetes.io/service-proxy-name"

// defaultAffinity is the session affinity timeout that the API server fills in
// (sessionAffinityConfig.clientIP.timeoutSeconds in the Service API), and
// maxAffinity the largest that it admits.
const (
	defaultAffinity = 10800 * time.Second
	maxAffinity     = 86400 * time.Second
)

// serviceSpec is what the Tracker keeps of a Service: all that can change what is
// programmed, and no reference into the API object.
type serviceSpec struct {
	created             int64 // metadata.creationTimestamp in seconds, 0 if unset
	ports               []portSpec
	families            []familySpec
	externalLocal       bool
	internalLocal       bool
	affinity            time.Duration
	healthCheckNodePort uint16
	balance             Balance
}

// portSpec is one port of a Service, the same in each family.
type portSpec struct {
	name     string
	protocol Protocol
	port     uint16
	nodePort uint16
}

// familySpec holds the addresses of a Service in one family in which it has a
// cluster IP.
type familySpec struct {
	family       Family
	clusterIP    netip.Addr
	external     []netip.Addr
	balancers    []netip.Addr
	sourceRanges []netip.Prefix
}

func (a *serviceSpec) equal(b *serviceSpec) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.created == b.created &&
		a.externalLocal == b.externalLocal &&
		a.internalLocal == b.internalLocal &&
		a.affinity == b.affinity &&
		a.healthCheckNodePort == b.healthCheckNodePort &&
		a.balance == b.balance &&
		slices.Equal(a.ports, b.ports) &&
		slices.EqualFunc(a.families, b.families, familySpec.equal)
}

func (a familySpec) equal(b familySpec) bool {
	return a.family == b.family &&
		a.clusterIP == b.clusterIP &&
		slices.Equal(a.external, b.external) &&
		slices.Equal(a.balancers, b.balancers) &&
		slices.Equal(a.sourceRanges, b.sourceRanges)
}

// intern returns a copy of s that equal strings share and that keeps no larger
// buffer alive.
func intern(s string) string { return unique.Make(s).Value() }

// parseService returns what to keep of svc, nil if this proxy is not to serve it,
// and what is wrong with it.
func parseService(svc *corev1.Service, proxyName string) (*serviceSpec, []Problem) {
	label, labelled := svc.Labels[LabelServiceProxyName]
	ours := !labelled && proxyName == "" || labelled && proxyName != "" && label == proxyName
	none := svc.Spec.ClusterIP == "" || svc.Spec.ClusterIP == corev1.ClusterIPNone
	if !ours || none || svc.Spec.Type == corev1.ServiceTypeExternalName {
		return nil, nil
	}
	p := &problems{kind: "Service", namespace: svc.Namespace, name: svc.Name}
	s := &serviceSpec{
		ports:         parsePorts(svc, p),
		families:      parseFamilies(svc, p),
		externalLocal: externalLocal(svc),
		internalLocal: internalLocal(svc),
		affinity:      parseAffinity(svc, p),
		balance:       parseBalance(svc.Annotations, p),
	}
	if !svc.CreationTimestamp.IsZero() {
		s.created = svc.CreationTimestamp.Unix()
	}
	if svc.Spec.Type == corev1.ServiceTypeLoadBalancer && s.externalLocal {
		s.healthCheckNodePort = parseHealthPort(svc, p)
	}
	return s, p.list
}

func externalLocal(svc *corev1.Service) bool {
	external := svc.Spec.Type == corev1.ServiceTypeLoadBalancer ||
		svc.Spec.Type == corev1.ServiceTypeNodePort || len(svc.Spec.ExternalIPs) > 0
	return external && svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

func internalLocal(svc *corev1.Service) bool {
	policy := svc.Spec.InternalTrafficPolicy
	return policy != nil && *policy == corev1.ServiceInternalTrafficPolicyLocal
}

func parseAffinity(svc *corev1.Service, p *problems) time.Duration {
	if svc.Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return 0
	}
	cfg := svc.Spec.SessionAffinityConfig
	if cfg == nil || cfg.ClientIP == nil || cfg.ClientIP.TimeoutSeconds == nil {
		return defaultAffinity
	}
	t := time.Duration(*cfg.ClientIP.TimeoutSeconds) * time.Second
	if t <= 0 || t > maxAffinity {
		p.add("spec.sessionAffinityConfig.clientIP.timeoutSeconds",
			"%d is not in 1..%d; %d is used", *cfg.ClientIP.TimeoutSeconds,
			int(maxAffinity.Seconds()), int(defaultAffinity.Seconds()))
		return defaultAffinity
	}
	return t
}

func parseHealthPort(svc *corev1.Service, p *problems) uint16 {
	n := svc.Spec.HealthCheckNodePort
	if !validPort(n) {
		p.add("spec.healthCheckNodePort",
			"%d is not a port; a load balancer cannot ask this node for its local endpoints", n)
		return 0
	}
	return uint16(n)
}

func validPort(n int32) bool { return n > 0 && n <= 65535 }

// parseProtocol returns the protocol that an object names, TCP if it names none.
func parseProtocol(name corev1.Protocol) (Protocol, error) {
	switch name {
	case corev1.ProtocolTCP, "":
		return TCP, nil
	case corev1.ProtocolUDP:
		return UDP, nil
	case corev1.ProtocolSCTP:
		return SCTP, nil
	}
	return 0, fmt.Errorf("%q is not TCP, UDP or SCTP", name)
}

func parsePorts(svc *corev1.Service, p *problems) []portSpec {
	ports := make([]portSpec, 0, len(svc.Spec.Ports))
	for i, sp := range svc.Spec.Ports {
		field := fmt.Sprintf("spec.ports[%d]", i)
		protocol, err := parseProtocol(sp.Protocol)
		if err != nil {
			p.add(field+".protocol", "%v; the port is skipped", err)
			continue
		}
		if !validPort(sp.Port) {
			p.add(field+".port", "%d is not a port; the port is skipped", sp.Port)
			continue
		}
		same := func(o portSpec) bool { return o.name == sp.Name && o.protocol == protocol }
		if slices.ContainsFunc(ports, same) {
			p.add(field+".name", "%q is the name of an earlier %s port; the port is skipped", sp.Name, protocol)
			continue
		}
		ports = append(ports, portSpec{
			name: intern(sp.Name), protocol: protocol,
			port: uint16(sp.Port), nodePort: parseNodePort(svc.Spec.Type, sp.NodePort, field, p),
		})
	}
	return ports
}

func parseNodePort(typ corev1.ServiceType, n int32, field string, p *problems) uint16 {
	switch {
	case n == 0:
		return 0
	case typ != corev1.ServiceTypeNodePort && typ != corev1.ServiceTypeLoadBalancer:
		p.add(field+".nodePort", "%d needs type NodePort or LoadBalancer; it is ignored", n)
		return 0
	case !validPort(n):
		p.add(field+".nodePort", "%d is not a port; it is ignored", n)
		return 0
	}
	return uint16(n)
}

// parseFamilies returns the families in which svc has a cluster IP, IPv4 first.
func parseFamilies(svc *corev1.Service, p *problems) []familySpec {
	var out []familySpec
	for _, family := range []Family{IPv4, IPv6} {
		if a := clusterIP(svc, family, p); a.IsValid() {
			out = append(out, familySpec{family: family, clusterIP: a})
		}
	}
	for i, s := range svc.Spec.ExternalIPs {
		field := fmt.Sprintf("spec.externalIPs[%d]", i)
		a := frontendAddr(field, s, checkRoutable, p)
		if f := familyOf(out, a, field, p); f != nil {
			f.external = append(f.external, a)
		}
	}
	parseBalancers(svc, out, p)
	for i := range out {
		out[i].sourceRanges = parseSourceRanges(svc, out[i].family)
	}
	return out
}

// parseBalancers adds the load balancer addresses for which this node is to answer:
// those that the load balancer leaves in the packets (ipMode VIP, KEP-1860).
func parseBalancers(svc *corev1.Service, families []familySpec, p *problems) {
	if checkSourceRanges(svc, p) {
		return
	}
	for i, ingress := range svc.Status.LoadBalancer.Ingress {
		if ingress.IP == "" || ingress.IPMode != nil && *ingress.IPMode != corev1.LoadBalancerIPModeVIP {
			continue
		}
		field := fmt.Sprintf("status.loadBalancer.ingress[%d].ip", i)
		a := frontendAddr(field, ingress.IP, checkFrontend, p)
		if f := familyOf(families, a, field, p); f != nil {
			f.balancers = append(f.balancers, a)
		}
	}
}

// familyOf returns the family of a, nil if a is invalid or the Service is not of
// that family, which it reports.
func familyOf(families []familySpec, a netip.Addr, field string, p *problems) *familySpec {
	if !a.IsValid() {
		return nil
	}
	for i := range families {
		if families[i].family == FamilyOf(a) {
			return &families[i]
		}
	}
	p.add(field, "%s is skipped: the Service has no %s cluster IP", a, FamilyOf(a))
	return nil
}

// clusterIP returns the cluster IP of svc in a family, the zero Addr if it has none.
// spec.ipFamilies says which entry of spec.clusterIPs is of which family; objects
// older than that field have spec.clusterIP only.
func clusterIP(svc *corev1.Service, family Family, p *problems) netip.Addr {
	field, s := "spec.clusterIP", svc.Spec.ClusterIP
	if len(svc.Spec.IPFamilies) > 0 {
		i := slices.Index(svc.Spec.IPFamilies, corev1.IPFamily(family.String()))
		if i < 0 || i >= len(svc.Spec.ClusterIPs) {
			return netip.Addr{}
		}
		field, s = fmt.Sprintf("spec.clusterIPs[%d]", i), svc.Spec.ClusterIPs[i]
	} else if a, err := parseAddr(s); err == nil && FamilyOf(a) != family || err != nil && family == IPv6 {
		return netip.Addr{}
	}
	a := frontendAddr(field, s, checkFrontend, p)
	if a.IsValid() && FamilyOf(a) != family {
		p.add(field, "%s is skipped: spec.ipFamilies says %s", a, family)
		return netip.Addr{}
	}
	return a
}

// frontendAddr returns the zero Addr for what is no address at which a Service can
// answer, which it reports.
func frontendAddr(field, s string, check func(netip.Addr) error, p *problems) netip.Addr {
	a, err := parseAddr(s)
	if err == nil {
		err = check(a)
	}
	if err != nil {
		p.add(field, "%v; the address is skipped", err)
		return netip.Addr{}
	}
	return a
}

// parseSourceRanges returns the source ranges of one family, sorted, each once. A
// range of length 0 admits everybody, which no ranges at all says as well.
func parseSourceRanges(svc *corev1.Service, family Family) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range svc.Spec.LoadBalancerSourceRanges {
		r, err := parsePrefix(s)
		if err != nil || FamilyOf(r.Addr()) != family {
			continue
		}
		if r.Bits() == 0 {
			return nil
		}
		out = append(out, r)
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}

// checkSourceRanges reports ranges that cannot be parsed. It returns true when
// there are ranges and none can be: to skip them all would open to everybody what
// was meant for few.
func checkSourceRanges(svc *corev1.Service, p *problems) bool {
	bad := 0
	for i, s := range svc.Spec.LoadBalancerSourceRanges {
		if _, err := parsePrefix(s); err != nil {
			bad++
			p.add(fmt.Sprintf("spec.loadBalancerSourceRanges[%d]", i), "%v; the range is skipped", err)
		}
	}
	closed := bad > 0 && bad == len(svc.Spec.LoadBalancerSourceRanges)
	if closed {
		p.add("spec.loadBalancerSourceRanges", "no range is left; the load balancer addresses are not served")
	}
	return closed
}
