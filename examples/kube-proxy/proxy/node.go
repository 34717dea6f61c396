package proxy

import (
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/proxier"
)

// autoscalerTaint marks a node that the cluster autoscaler is about to delete
// (https://github.com/kubernetes/enhancements/tree/master/keps/sig-network/3836-kube-proxy-improved-ingress-connectivity-reliability).
const autoscalerTaint = "ToBeDeletedByClusterAutoscaler"

// target is what is told about the node; *proxier.Proxier is one.
type target interface {
	SetZone(zone string)
	SetNetwork(n proxier.Network)
}

// node keeps a proxier at what the Node and the ServiceCIDRs say. Its methods are
// safe for concurrent use.
type node struct {
	target target
	// bindAddress is the field of the file. podCIDRs says that they are needed.
	bindAddress string
	podCIDRs    bool

	// mu guards what follows; it is held while target is told.
	mu       sync.Mutex
	eligible bool
	network  proxier.Network
}

// set takes the Node over; nil means that there is none.
func (n *node) set(object *corev1.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.eligible = object != nil && eligible(object)
	if object == nil {
		return // what was known of it is better than nothing
	}
	n.target.SetZone(object.Labels[corev1.LabelTopologyZone])
	n.network.NodeAddrs = nodeAddrs(object, n.bindAddress)
	if n.podCIDRs {
		n.network.PodCIDRs = podCIDRs(object)
	}
	n.target.SetNetwork(n.network)
}

func (n *node) setServiceCIDRs(all []netip.Prefix) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.network.ServiceCIDRs = all
	n.target.SetNetwork(n.network)
}

// isEligible reports whether load balancers should send the node traffic.
func (n *node) isEligible() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.eligible
}

func eligible(object *corev1.Node) bool {
	leaving := slices.ContainsFunc(object.Spec.Taints, func(t corev1.Taint) bool { return t.Key == autoscalerTaint })
	return !leaving && object.DeletionTimestamp == nil
}

// nodeAddrs returns the primary address of the node in each family: bindAddress if
// others can reach it, else the first internal, else the first external address of
// the Node, and for a Node without any what the host itself would use.
func nodeAddrs(object *corev1.Node, bindAddress string) []netip.Addr {
	var found []netip.Addr
	if a, err := netip.ParseAddr(bindAddress); err == nil && !a.IsUnspecified() && !a.IsLoopback() {
		found = append(found, a)
	}
	for _, typ := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP} {
		for _, in := range object.Status.Addresses {
			if a, err := netip.ParseAddr(in.Address); err == nil && in.Type == typ {
				found = append(found, a.Unmap())
			}
		}
	}
	if len(found) == 0 {
		return primaryAddrs(bindAddress)
	}
	var out []netip.Addr
	for _, f := range []proxier.Family{proxier.IPv4, proxier.IPv6} {
		if i := slices.IndexFunc(found, func(a netip.Addr) bool { return proxier.FamilyOf(a) == f }); i >= 0 {
			out = append(out, found[i])
		}
	}
	return out
}

func podCIDRs(object *corev1.Node) []netip.Prefix {
	all := object.Spec.PodCIDRs
	if len(all) == 0 && object.Spec.PodCIDR != "" {
		all = []string{object.Spec.PodCIDR}
	}
	var out []netip.Prefix
	for _, s := range all {
		if p, err := netip.ParsePrefix(s); err == nil {
			out = append(out, p.Masked())
		}
	}
	return out
}
