package source

import (
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// managedBy marks the slices that are built here.
const managedBy = "nodekit-proxier"

// selects reports whether the endpoints of svc are to be built from pods.
func selects(svc *corev1.Service) bool {
	return len(svc.Spec.Selector) > 0 && svc.Spec.Type != corev1.ServiceTypeExternalName &&
		svc.Spec.ClusterIP != corev1.ClusterIPNone
}

// buildSlices returns the EndpointSlices of svc, sorted by name: as many per family
// as there are different sets of ports, since a named targetPort may mean another
// number in each pod. pods must be sorted.
func buildSlices(svc *corev1.Service, pods []pod, nodeName string) []*discoveryv1.EndpointSlice {
	byName := map[string]*discoveryv1.EndpointSlice{}
	for i := range pods {
		p := &pods[i]
		if p.finished || !p.matches(svc.Namespace, svc.Spec.Selector) {
			continue
		}
		ports := endpointPorts(svc, p)
		if len(ports) == 0 {
			continue
		}
		for _, typ := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
			addr, ok := p.addr(typ)
			if !ok {
				continue
			}
			name := sliceName(svc.Name, typ, ports)
			if byName[name] == nil {
				byName[name] = newSlice(svc, name, typ, ports)
			}
			byName[name].Endpoints = append(byName[name].Endpoints, newEndpoint(svc, p, addr, nodeName))
		}
	}
	out := make([]*discoveryv1.EndpointSlice, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, byName[name])
	}
	return out
}

// addr returns the first address of p of one family.
func (p *pod) addr(typ discoveryv1.AddressType) (netip.Addr, bool) {
	for _, a := range p.ips {
		if a.Is4() == (typ == discoveryv1.AddressTypeIPv4) {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// endpointPorts returns the ports of svc that p has.
func endpointPorts(svc *corev1.Service, p *pod) []discoveryv1.EndpointPort {
	var out []discoveryv1.EndpointPort
	for _, sp := range svc.Spec.Ports {
		n, ok := p.targetPort(sp)
		if !ok {
			continue
		}
		protocol := sp.Protocol
		if protocol == "" {
			protocol = corev1.ProtocolTCP
		}
		out = append(out, discoveryv1.EndpointPort{
			Name: new(sp.Name), Port: new(n), Protocol: new(protocol), AppProtocol: sp.AppProtocol,
		})
	}
	return out
}

// sliceName returns a name that is the same for the same ports, so that a pod that
// comes or goes leaves other slices alone.
func sliceName(service string, typ discoveryv1.AddressType, ports []discoveryv1.EndpointPort) string {
	h := fnv.New32a()
	for _, p := range ports {
		fmt.Fprintf(h, "%s %s %d\n", *p.Name, *p.Protocol, *p.Port)
	}
	return fmt.Sprintf("%s-pods-%s-%08x", service, map[discoveryv1.AddressType]string{
		discoveryv1.AddressTypeIPv4: "v4", discoveryv1.AddressTypeIPv6: "v6",
	}[typ], h.Sum32())
}

func newSlice(svc *corev1.Service, name string, typ discoveryv1.AddressType, ports []discoveryv1.EndpointPort) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: svc.Namespace, Name: name,
			Labels: map[string]string{
				discoveryv1.LabelServiceName: svc.Name,
				discoveryv1.LabelManagedBy:   managedBy,
			},
		},
		AddressType: typ,
		Ports:       ports,
	}
}

// newEndpoint sets the conditions as the API of EndpointSlice defines them: ready
// is serving and not terminating, and always true for publishNotReadyAddresses.
func newEndpoint(svc *corev1.Service, p *pod, addr netip.Addr, nodeName string) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses: []string{addr.String()},
		Conditions: discoveryv1.EndpointConditions{
			Ready:       new(svc.Spec.PublishNotReadyAddresses || p.ready && !p.terminating),
			Serving:     new(p.ready),
			Terminating: new(p.terminating),
		},
		NodeName: new(nodeName),
		TargetRef: &corev1.ObjectReference{
			Kind: "Pod", Namespace: p.name.Namespace, Name: p.name.Name, UID: p.uid,
		},
	}
}
