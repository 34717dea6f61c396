package proxiertest

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodekit-go/nodekit/proxier"
)

// Objects are everything that a proxy knows about Services.
type Objects struct {
	Services []*corev1.Service
	Slices   []*discoveryv1.EndpointSlice
}

// service describes a dual-stack Service with one port of each protocol. Its frontends
// follow from its number, but where another Service's are asked for.
type service struct {
	number    int
	endpoints []endpoint
	// nodePort, externalIP and vip add these frontends.
	nodePort, externalIP, vip bool
	// vipOf asks for the load balancer address of another Service.
	vipOf int
	// nodePortOf asks for the node ports of another Service.
	nodePortOf    int
	externalLocal bool
	internalLocal bool
	affinity      bool
	// timeout is that of affinity; 0 is an hour.
	timeout int32
	// sources limit who may use the VIP, and so do ranges.
	sources []Host
	ranges  []string
	// age orders Services: the higher, the older.
	age int
}

// endpoint is an endpoint of a Service.
type endpoint struct {
	host Host
	// state is empty for ready.
	state endpointState
	// hint is the node that the endpoint is meant for.
	hint string
}

type endpointState uint8

const (
	ready endpointState = iota
	draining
	notReady
)

func on(hosts ...Host) []endpoint {
	var eps []endpoint
	for _, h := range hosts {
		eps = append(eps, endpoint{host: h})
	}
	return eps
}

// frontend is the address of one kind of frontend.
func (s service) frontend(kind proxier.FrontendKind, family proxier.Family) netip.AddrPort {
	number := s.number
	switch {
	case s.vipOf != 0 && kind == proxier.LoadBalancer:
		number = s.vipOf
	case s.nodePortOf != 0 && kind == proxier.NodePort:
		number = s.nodePortOf
	}
	return frontendOf(number, kind, family)
}

func frontendOf(number int, kind proxier.FrontendKind, family proxier.Family) netip.AddrPort {
	if kind == proxier.NodePort {
		return netip.AddrPortFrom(OurNode.Addr(family), uint16(30000+number))
	}
	if kind == proxier.ClusterIP && family == proxier.IPv4 {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 96, byte(number >> 8), byte(number)}), servicePort)
	}
	format := map[proxier.FrontendKind]string{proxier.ExternalIP: "192.0.2.%d", proxier.LoadBalancer: "203.0.113.%d"}
	if family == proxier.IPv6 {
		format = map[proxier.FrontendKind]string{
			proxier.ClusterIP: "fd00:96::%d", proxier.ExternalIP: "2001:db8:e::%d", proxier.LoadBalancer: "2001:db8:b::%d",
		}
	}
	return netip.AddrPortFrom(netip.MustParseAddr(fmt.Sprintf(format[kind], number)), servicePort)
}

func (s service) name() string { return "service-" + strconv.Itoa(s.number) }

// families are those of a World's Services.
func families() []proxier.Family { return []proxier.Family{proxier.IPv4, proxier.IPv6} }

// build returns the API objects.
func (s service) build() Objects {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: s.name(), UID: types.UID("uid-of-" + s.name()), ResourceVersion: "1",
			CreationTimestamp: metav1.NewTime(time.Unix(1_700_000_000-int64(s.age)*60, 0)),
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, IPFamilyPolicy: new(corev1.IPFamilyPolicyRequireDualStack),
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
		},
	}
	for _, family := range families() {
		spec := &svc.Spec
		spec.ClusterIPs = append(spec.ClusterIPs, s.frontend(proxier.ClusterIP, family).Addr().String())
		if s.externalIP {
			spec.ExternalIPs = append(spec.ExternalIPs, s.frontend(proxier.ExternalIP, family).Addr().String())
		}
		if s.vip {
			svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress,
				corev1.LoadBalancerIngress{IP: s.frontend(proxier.LoadBalancer, family).Addr().String(), IPMode: new(corev1.LoadBalancerIPModeVIP)})
		}
		for _, h := range s.sources {
			a := h.Addr(family)
			spec.LoadBalancerSourceRanges = append(spec.LoadBalancerSourceRanges, netip.PrefixFrom(a, a.BitLen()).String())
		}
	}
	svc.Spec.LoadBalancerSourceRanges = append(svc.Spec.LoadBalancerSourceRanges, s.ranges...)
	svc.Spec.ClusterIP = svc.Spec.ClusterIPs[0]
	s.policies(&svc.Spec)
	for _, protocol := range protocols() {
		port := corev1.ServicePort{
			Name: portName(protocol), Protocol: corev1.Protocol(protocol.String()),
			Port: servicePort, TargetPort: intstr.FromInt32(targetPort),
		}
		if s.nodePort || s.vip {
			port.NodePort = int32(s.frontend(proxier.NodePort, proxier.IPv4).Port())
		}
		svc.Spec.Ports = append(svc.Spec.Ports, port)
	}
	o := Objects{Services: []*corev1.Service{svc}}
	for _, family := range families() {
		o.Slices = append(o.Slices, s.slice(family))
	}
	return o
}

func (s service) policies(spec *corev1.ServiceSpec) {
	spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyCluster)
	if s.internalLocal {
		spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
	}
	if s.nodePort || s.vip || s.externalIP {
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
		if s.externalLocal {
			spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		}
	}
	spec.SessionAffinity = corev1.ServiceAffinityNone
	if s.affinity {
		spec.SessionAffinity = corev1.ServiceAffinityClientIP
		spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(cmp.Or(s.timeout, 3600))}}
	}
	switch {
	case s.vip:
		spec.Type = corev1.ServiceTypeLoadBalancer
		if s.externalLocal {
			spec.HealthCheckNodePort = int32(31000 + s.number)
		}
	case s.nodePort:
		spec.Type = corev1.ServiceTypeNodePort
	}
}

func portName(p proxier.Protocol) string {
	return map[proxier.Protocol]string{proxier.TCP: "by-tcp", proxier.UDP: "by-udp", proxier.SCTP: "by-sctp"}[p]
}

func (s service) slice(family proxier.Family) *discoveryv1.EndpointSlice {
	es := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: s.name() + "-" + family.String(), ResourceVersion: "1",
			Labels: map[string]string{discoveryv1.LabelServiceName: s.name()},
		},
		AddressType: discoveryv1.AddressType(family.String()),
	}
	for _, protocol := range protocols() {
		es.Ports = append(es.Ports, discoveryv1.EndpointPort{
			Name: new(portName(protocol)), Port: new(int32(targetPort)), Protocol: new(corev1.Protocol(protocol.String())),
		})
	}
	for _, e := range s.endpoints {
		ep := discoveryv1.Endpoint{
			Addresses: []string{e.host.Addr(family).String()}, NodeName: new(e.host.node()),
			Conditions: discoveryv1.EndpointConditions{
				Ready: new(e.state == ready), Serving: new(e.state != notReady), Terminating: new(e.state == draining),
			},
		}
		if e.hint != "" {
			ep.Hints = &discoveryv1.EndpointHints{ForNodes: []discoveryv1.ForNode{{Name: e.hint}}}
		}
		es.Endpoints = append(es.Endpoints, ep)
	}
	return es
}

func objectsOf(services []service) Objects {
	var o Objects
	for _, s := range services {
		one := s.build()
		o.Services = append(o.Services, one.Services...)
		o.Slices = append(o.Slices, one.Slices...)
	}
	return o
}
