package proxier

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Family is the IP family of a ServicePort. The zero value is not a family.
type Family uint8

// The two IP families.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

// String returns "IPv4" or "IPv6".
func (f Family) String() string {
	switch f {
	case IPv4:
		return "IPv4"
	case IPv6:
		return "IPv6"
	}
	return "unknown family"
}

// FamilyOf returns the family of a; an IPv4-mapped IPv6 address counts as IPv4.
func FamilyOf(a netip.Addr) Family {
	if a.Unmap().Is4() {
		return IPv4
	}
	return IPv6
}

// Protocol is a transport protocol, valued as in the IP header
// (https://www.iana.org/assignments/protocol-numbers).
type Protocol uint8

// The transport protocols a Service port may have.
const (
	TCP  Protocol = 6
	UDP  Protocol = 17
	SCTP Protocol = 132
)

// String returns the name that the Kubernetes API uses: "TCP", "UDP", "SCTP".
func (p Protocol) String() string {
	switch p {
	case TCP:
		return "TCP"
	case UDP:
		return "UDP"
	case SCTP:
		return "SCTP"
	}
	return "unknown protocol"
}

// PortName names one port of one Service.
type PortName struct {
	Namespace string
	Name      string
	// Port is the name of the port; empty for the only port of a Service.
	Port     string
	Protocol Protocol
}

// String returns "ns/name:port", or "ns/name" for an unnamed port.
func (n PortName) String() string {
	s := n.Namespace + "/" + n.Name
	if n.Port != "" {
		s += ":" + n.Port
	}
	return s
}

// Key identifies a ServicePort: one port of one Service in one IP family.
type Key struct {
	PortName
	Family Family
}

// Compare orders keys by namespace, name, port, protocol and family.
func (k Key) Compare(o Key) int {
	return cmp.Or(
		strings.Compare(k.Namespace, o.Namespace),
		strings.Compare(k.Name, o.Name),
		strings.Compare(k.Port, o.Port),
		cmp.Compare(k.Protocol, o.Protocol),
		cmp.Compare(k.Family, o.Family),
	)
}

// FrontendKind says where a Frontend comes from.
type FrontendKind uint8

// The kinds of Frontend.
const (
	ClusterIP FrontendKind = iota + 1
	NodePort
	ExternalIP
	LoadBalancer
)

// String returns the name of the kind as the Service API spells it.
func (k FrontendKind) String() string {
	switch k {
	case ClusterIP:
		return "ClusterIP"
	case NodePort:
		return "NodePort"
	case ExternalIP:
		return "ExternalIP"
	case LoadBalancer:
		return "LoadBalancer"
	}
	return "unknown frontend"
}

// External reports whether traffic to the kind follows externalTrafficPolicy.
func (k FrontendKind) External() bool { return k != ClusterIP }

// Frontend is one address and port at which a ServicePort answers.
type Frontend struct {
	Kind FrontendKind
	// Addr is the zero netip.Addr for a NodePort, which answers at the node's own
	// addresses.
	Addr netip.Addr
	Port uint16
}

// Endpoint is one backend of a ServicePort.
type Endpoint struct {
	Addr netip.AddrPort
	// Local is true when the endpoint runs on this node.
	Local bool
}

// ServicePort is the desired state of one port of one Service in one family. It
// holds everything a Backend needs and nothing else, so that two equal values
// need the same kernel state. Values are immutable once handed to a Backend.
type ServicePort struct {
	Key Key
	// Frontends are the addresses this ServicePort owns. The Tracker has settled
	// conflicts: no two ServicePorts of a State share a frontend of the same
	// protocol.
	Frontends []Frontend
	// Cluster are the endpoints for policy Cluster, sorted by address. Topology
	// hints and the fallback to terminating endpoints have been applied.
	Cluster []Endpoint
	// Local are the endpoints for policy Local, sorted by address. They are there where
	// a policy is Local or HealthCheckNodePort asks for them: whether they get traffic is
	// for InternalLocal and ExternalLocal to say.
	Local []Endpoint
	// LocalDraining tells that no endpoint of this node is ready and that Local are
	// those that shut down but still serve: a load balancer should pass the node over.
	LocalDraining bool
	// Serving are, for UDP alone, all endpoints that serve or are ready, whatever
	// policy and topology say, sorted by address. Flows to others have nobody to answer them.
	Serving []netip.AddrPort
	// HasEndpoints tells "no endpoint anywhere" (false: reject) from "none that
	// this policy may use" (true: drop).
	HasEndpoints bool
	// ExternalLocal and InternalLocal are externalTrafficPolicy and
	// internalTrafficPolicy Local.
	ExternalLocal bool
	InternalLocal bool
	// SourceRanges limit who may use the LoadBalancer frontends; empty means all.
	SourceRanges []netip.Prefix
	// Affinity is the timeout of sessionAffinity ClientIP; 0 means none.
	Affinity time.Duration
	// HealthCheckNodePort is 0 when the Service has none.
	HealthCheckNodePort uint16
	// Balance is how to choose among endpoints, for a Backend that can do it in several
	// ways. The others draw one at random, and report that.
	Balance Balance
}

// Equal reports whether a and b need the same kernel state. A nil ServicePort
// equals only nil.
func (a *ServicePort) Equal(b *ServicePort) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Key == b.Key &&
		a.HasEndpoints == b.HasEndpoints &&
		a.LocalDraining == b.LocalDraining &&
		a.ExternalLocal == b.ExternalLocal &&
		a.InternalLocal == b.InternalLocal &&
		a.Affinity == b.Affinity &&
		a.HealthCheckNodePort == b.HealthCheckNodePort &&
		a.Balance == b.Balance &&
		slices.Equal(a.Frontends, b.Frontends) &&
		slices.Equal(a.Cluster, b.Cluster) &&
		slices.Equal(a.Local, b.Local) &&
		slices.Equal(a.Serving, b.Serving) &&
		slices.Equal(a.SourceRanges, b.SourceRanges)
}

// Network is what a Backend needs to know of the node and the cluster beside
// ServicePorts. In the zero value nothing is known.
type Network struct {
	// NodeAddrs are the node's own addresses, the primary one of each family.
	NodeAddrs []netip.Addr
	// PodCIDRs are the ranges of this node's pods, for a Backend that is to tell
	// their traffic by it.
	PodCIDRs []netip.Prefix
	// ServiceCIDRs are the ranges of cluster IPs: an address in one of them that no
	// Service has leads nowhere.
	ServiceCIDRs []netip.Prefix
}

// Equal reports whether n and o are the same, in the same order.
func (n Network) Equal(o Network) bool {
	return slices.Equal(n.NodeAddrs, o.NodeAddrs) && slices.Equal(n.PodCIDRs, o.PodCIDRs) &&
		slices.Equal(n.ServiceCIDRs, o.ServiceCIDRs)
}

// State is the whole desired state of both families.
type State struct {
	// Ports are sorted by Key.
	Ports []*ServicePort
	// Network changes by a Reset alone.
	Network Network
}

// Delta is the difference between two States. A key stands in one of the two
// lists at most.
type Delta struct {
	// Remove are keys that are gone.
	Remove []Key
	// Update are new or changed ServicePorts, sorted by Key.
	Update []*ServicePort
}

// Empty reports whether the delta changes nothing.
func (d Delta) Empty() bool { return len(d.Remove) == 0 && len(d.Update) == 0 }
