package iptables

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"github.com/nodekit-go/nodekit/proxier"
)

// hash is what tells chains of the same kind apart. Chain names have 28 bytes at
// most (XT_EXTENSION_MAXNAMELEN of linux/netfilter/x_tables.h).
type hash [16]byte

// hashOf is kube-proxy's: the first 80 bits of SHA-256, in base 32.
func hashOf(text []byte) hash {
	sum := sha256.Sum256(text)
	var h hash
	base32.StdEncoding.Encode(h[:], sum[:len(h)*5/8])
	return h
}

// chainKind is the kind of a chain that belongs to one ServicePort.
type chainKind uint8

// The kinds of chains, all in table nat.
const (
	clusterChain  chainKind = iota + 1 // endpoints of policy Cluster
	localChain                         // endpoints of policy Local
	externalChain                      // traffic from outside, before its policy is known
	firewallChain                      // source ranges of a load balancer
	endpointChain                      // one endpoint
)

// prefix is what names of the kind begin with.
func (k chainKind) prefix() string {
	switch k {
	case clusterChain:
		return "KUBE-SVC-"
	case localChain:
		return "KUBE-SVL-"
	case externalChain:
		return "KUBE-EXT-"
	case firewallChain:
		return "KUBE-FW-"
	case endpointChain:
		return "KUBE-SEP-"
	}
	return ""
}

// chainName names a chain that belongs to one ServicePort.
type chainName struct {
	kind chainKind
	hash hash
}

// append appends the name as iptables has it.
func (n chainName) append(b []byte) []byte {
	return append(append(b, n.kind.prefix()...), n.hash[:]...)
}

func (n chainName) String() string { return string(n.append(nil)) }

// hashed reports whether a chain of table nat has the name of one that belongs to a
// ServicePort, whosoever made it.
func hashed(name string) bool {
	for k := clusterChain; k <= endpointChain; k++ {
		if strings.HasPrefix(name, k.prefix()) {
			return true
		}
	}
	return false
}

// Chains that are there once.
const (
	servicesChain      = "KUBE-SERVICES"          // nat, and filter for those without endpoints
	externalServices   = "KUBE-EXTERNAL-SERVICES" // filter
	nodePortsChain     = "KUBE-NODEPORTS"         // nat, and filter for health checks
	postroutingChain   = "KUBE-POSTROUTING"       // nat
	markChain          = "KUBE-MARK-MASQ"         // nat
	forwardChain       = "KUBE-FORWARD"           // filter
	proxyFirewallChain = "KUBE-PROXY-FIREWALL"    // filter
	canaryChain        = "KUBE-PROXY-CANARY"      // all three
	// hostFirewallChain is the kubelet's, too, and stays.
	hostFirewallChain = "KUBE-FIREWALL" // filter
)

// tableName is a table of iptables.
type tableName string

// The tables that the Backend has chains in.
const (
	mangle tableName = "mangle"
	filter tableName = "filter"
	nat    tableName = "nat"
)

func tables() []tableName { return []tableName{mangle, filter, nat} }

// owned reports whether a chain belongs to kube-proxy, and so to whoever runs in its
// place.
func owned(table tableName, chain string) bool {
	switch chain {
	case canaryChain:
		return true
	case servicesChain, nodePortsChain:
		return table == nat || table == filter
	case postroutingChain, markChain:
		return table == nat
	case externalServices, forwardChain, proxyFirewallChain:
		return table == filter
	}
	return table == nat && hashed(chain)
}

// sharedChain is a chain with rules of many ServicePorts.
type sharedChain uint8

const (
	natServices sharedChain = iota
	natNodePorts
	filterServices
	filterExternal
	filterFirewall
	filterNodePorts
	sharedChains // their number
)

func (c sharedChain) table() tableName {
	if c <= natNodePorts {
		return nat
	}
	return filter
}

func (c sharedChain) String() string {
	switch c {
	case natServices, filterServices:
		return servicesChain
	case natNodePorts, filterNodePorts:
		return nodePortsChain
	case filterExternal:
		return externalServices
	case filterFirewall:
		return proxyFirewallChain
	}
	return ""
}

// protocolName is the name that iptables has for a protocol; empty if there is none.
func protocolName(p proxier.Protocol) string {
	switch p {
	case proxier.TCP:
		return "tcp"
	case proxier.UDP:
		return "udp"
	case proxier.SCTP:
		return "sctp"
	}
	return ""
}
