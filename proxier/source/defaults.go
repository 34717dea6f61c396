package source

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// defaultService fills in what the API server would, as the documentation of each
// field says (https://kubernetes.io/docs/reference/kubernetes-api/service-resources/service-v1),
// as far as a proxy reads it.
func defaultService(svc *corev1.Service) {
	if svc.Namespace == "" {
		svc.Namespace = metav1.NamespaceDefault
	}
	if svc.Spec.Type == "" {
		svc.Spec.Type = corev1.ServiceTypeClusterIP
	}
	for i := range svc.Spec.Ports {
		p := &svc.Spec.Ports[i]
		if p.Protocol == "" {
			p.Protocol = corev1.ProtocolTCP
		}
		if p.TargetPort == (intstr.IntOrString{}) || p.TargetPort == intstr.FromString("") {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
	}
	defaultClusterIPs(&svc.Spec)
}

// defaultClusterIPs makes spec.clusterIP, spec.clusterIPs and spec.ipFamilies say
// the same, where the manifest leaves some out.
func defaultClusterIPs(spec *corev1.ServiceSpec) {
	if spec.ClusterIP == "" && len(spec.ClusterIPs) > 0 {
		spec.ClusterIP = spec.ClusterIPs[0]
	}
	if spec.ClusterIP == "" || spec.ClusterIP == corev1.ClusterIPNone {
		return
	}
	if len(spec.ClusterIPs) == 0 {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
	if len(spec.IPFamilies) > 0 {
		return
	}
	for _, s := range spec.ClusterIPs {
		a, err := netip.ParseAddr(s)
		if err != nil {
			spec.IPFamilies = nil // left to whoever reports the address
			return
		}
		family := corev1.IPv4Protocol
		if a.Unmap().Is6() {
			family = corev1.IPv6Protocol
		}
		spec.IPFamilies = append(spec.IPFamilies, family)
	}
}

func defaultSlice(es *discoveryv1.EndpointSlice) {
	if es.Namespace == "" {
		es.Namespace = metav1.NamespaceDefault
	}
	for i := range es.Ports {
		p := &es.Ports[i]
		if p.Name == nil {
			p.Name = new("")
		}
		if p.Protocol == nil {
			p.Protocol = new(corev1.ProtocolTCP)
		}
	}
}
