package proxiertest

import (
	"fmt"
	"net/netip"

	"github.com/nodekit-go/nodekit/proxier"
)

// Host is a place in a World that connections come from or go to.
type Host uint8

// The hosts of a World. OurNode has the proxy under test and the two local pods.
const (
	Outside    Host = iota + 1 // a client that is no part of the cluster
	ClientNode                 // another node of the cluster
	OurNode
	Pod1 // on OurNode
	Pod2 // on OurNode
	Far1 // a pod on a second node
	Far2 // a pod on a third node
)

// String returns the name of the host, which is that of its node where it is a pod.
func (h Host) String() string {
	switch h {
	case Outside:
		return "outside"
	case ClientNode:
		return "client-node"
	case OurNode:
		return "our-node"
	case Pod1:
		return "pod-1"
	case Pod2:
		return "pod-2"
	case Far1:
		return "far-1"
	case Far2:
		return "far-2"
	}
	return fmt.Sprintf("host %d", uint8(h))
}

// Addr is the host's own address.
func (h Host) Addr(family proxier.Family) netip.Addr {
	v4 := map[Host]string{
		Outside: "198.51.100.7", ClientNode: "10.0.3.2", OurNode: "10.0.0.2",
		Pod1: "10.244.1.11", Pod2: "10.244.1.12", Far1: "10.244.2.15", Far2: "10.244.3.15",
	}
	v6 := map[Host]string{
		Outside: "2001:db8:f::7", ClientNode: "2001:db8:3::2", OurNode: "2001:db8:1::2",
		Pod1: "fd00:244:1::11", Pod2: "fd00:244:1::12", Far1: "fd00:244:2::15", Far2: "fd00:244:3::15",
	}
	if family == proxier.IPv6 {
		return netip.MustParseAddr(v6[h])
	}
	return netip.MustParseAddr(v4[h])
}

// node is the name of the node that the host is, or is on.
func (h Host) node() string {
	if h == Pod1 || h == Pod2 {
		return OurNode.String()
	}
	return h.String()
}

// PodRanges are where all pods of a World have their addresses: what a proxy is told
// as cluster CIDRs, to tell pods from others.
func PodRanges() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:244::/32")}
}

// NodeName is the name of the node that the proxy under test is on.
const NodeName = "our-node"

// Port numbers of a World's Services and pods.
const (
	servicePort = 80
	targetPort  = 8080
)
