package nftables

import (
	"strconv"

	"github.com/nodekit-go/nodekit/proxier"
)

// object is a set or map of a generation. Every ServicePort of a family shares
// the same few objects.
type object uint8

const (
	// services says what becomes of a connection to an address: the chain that
	// picks an endpoint.
	services object = iota
	// endpoints holds the endpoint lists, one element per slot.
	endpoints
	// shortCircuit and localServices split a frontend with externalTrafficPolicy
	// Local by the source of the connection: from this node or its pods to the
	// whole list, from elsewhere to the list in localEndpoints.
	shortCircuit
	localServices
	localEndpoints
	// noEndpoints says which frontends reject or drop.
	noEndpoints
	// The same for node ports, which have no address.
	nodePortServices
	nodePortEndpoints
	nodePortShortCircuit
	nodePortLocalServices
	nodePortLocalEndpoints
	nodePortNoEndpoints
	// clusterIPs are the known cluster IPs: an unknown port of one is rejected.
	clusterIPs
	// hairpin are the connections of a pod to itself.
	hairpin
	// firewallVIPs are the frontends with source ranges, firewallSources the
	// sources that each admits.
	firewallVIPs
	firewallSources
	// affinitySlots are the endpoints of ServicePorts with session affinity.
	affinitySlots
	objectCount
)

// component is one part of the concatenation that makes a key or a datum. Each
// takes whole 32-bit registers.
type component uint8

const (
	partAddr component = iota
	partProto
	partPort
	// partNumber is a slot number, in the byte order of the host.
	partNumber
	// partSource is a source prefix, the only part with an interval.
	partSource
)

// class says what an object maps to.
type class uint8

const (
	plainSet class = iota
	endpointMap
	verdictMap
)

// objectSpec describes an object.
type objectSpec struct {
	name  string
	class class
	key   []component
	// early objects are read only through verdicts: their new elements are
	// committed before the verdicts that lead to them.
	early bool
}

// objectSpecs describes the objects.
//
//nolint:gochecknoglobals // a table that nothing changes
var objectSpecs = [objectCount]objectSpec{
	services:               {name: "services", class: verdictMap, key: []component{partAddr, partProto, partPort}},
	endpoints:              {name: "endpoints", class: endpointMap, early: true, key: []component{partAddr, partProto, partPort, partNumber}},
	shortCircuit:           {name: "short-circuit", class: verdictMap, key: []component{partAddr, partProto, partPort}},
	localServices:          {name: "local-services", class: verdictMap, key: []component{partAddr, partProto, partPort}},
	localEndpoints:         {name: "local-endpoints", class: endpointMap, early: true, key: []component{partAddr, partProto, partPort, partNumber}},
	noEndpoints:            {name: "no-endpoints", class: verdictMap, key: []component{partAddr, partProto, partPort}},
	nodePortServices:       {name: "nodeport-services", class: verdictMap, key: []component{partProto, partPort}},
	nodePortEndpoints:      {name: "nodeport-endpoints", class: endpointMap, early: true, key: []component{partProto, partPort, partNumber}},
	nodePortShortCircuit:   {name: "nodeport-short-circuit", class: verdictMap, key: []component{partProto, partPort}},
	nodePortLocalServices:  {name: "nodeport-local-services", class: verdictMap, key: []component{partProto, partPort}},
	nodePortLocalEndpoints: {name: "nodeport-local-endpoints", class: endpointMap, early: true, key: []component{partProto, partPort, partNumber}},
	nodePortNoEndpoints:    {name: "nodeport-no-endpoints", class: verdictMap, key: []component{partProto, partPort}},
	clusterIPs:             {name: "cluster-ips", key: []component{partAddr}},
	hairpin:                {name: "hairpin", early: true, key: []component{partAddr, partAddr, partProto, partPort}},
	firewallVIPs:           {name: "firewall-vips", key: []component{partAddr, partProto, partPort}},
	firewallSources:        {name: "firewall-sources", key: []component{partAddr, partProto, partPort, partSource}},
	affinitySlots:          {name: "affinity-slots", class: endpointMap, early: true, key: []component{partNumber}},
}

func (o object) String() string { return objectSpecs[o].name }

// space is the kind of key that leads to a frontend.
type space uint8

const (
	// byAddr is an address, a protocol and a port.
	byAddr space = iota
	// byNodePort is a protocol and a port: the address is any of the node.
	byNodePort
)

// of returns the object of s that does for it what o, which is one of those
// from services to noEndpoints, does for addresses.
func (s space) of(o object) object {
	if s == byNodePort {
		return o + nodePortServices
	}
	return o
}

// spaceOf returns the space of a frontend.
func spaceOf(f proxier.Frontend) space {
	if f.Kind == proxier.NodePort {
		return byNodePort
	}
	return byAddr
}

// chainKind is what a chain of a generation does.
type chainKind uint8

const (
	noChain chainKind = iota
	// dropVerdict is not a chain but the verdict itself.
	dropVerdict
	// balance-K picks one of K endpoints.
	balance
	// cluster-K marks connections from off the cluster for masquerade, then
	// balances; external-K marks all.
	cluster
	external
	// local-K picks one of K local endpoints.
	local
	// policyLocal splits connections by their source.
	policyLocal
	// affinity-N looks for the pinned endpoint of list N, then balances;
	// affinityLocal does so among local endpoints, affinityCluster and
	// affinityExternal mark first.
	affinity
	affinityLocal
	affinityCluster
	affinityExternal
	reject
	// The entry chains of the hooks.
	entryServices
	entryMasquerade
	entryInput
	entryForward
	entryFirewall
)

// chainNames are the names of the chain kinds; a trailing hyphen asks for the
// number.
//
//nolint:gochecknoglobals // a table that nothing changes
var chainNames = [...]string{
	dropVerdict:      "drop",
	balance:          "lb-",
	cluster:          "cluster-lb-",
	external:         "external-lb-",
	local:            "local-lb-",
	policyLocal:      "policy-local",
	affinity:         "affinity-",
	affinityLocal:    "local-affinity-",
	affinityCluster:  "cluster-affinity-",
	affinityExternal: "external-affinity-",
	reject:           "reject",
	entryServices:    "services",
	entryMasquerade:  "masquerade",
	entryInput:       "input",
	entryForward:     "forward",
	entryFirewall:    "firewall",
}

// chain names a chain of a generation. It is a value, so that it can be
// compared and counted without building its name.
type chain struct {
	kind  chainKind
	space space
	n     uint32
}

// String returns the name without the prefix of the generation.
func (c chain) String() string {
	name := chainNames[c.kind]
	if name == "" {
		return "none"
	}
	if name[len(name)-1] == '-' {
		name += strconv.FormatUint(uint64(c.n), 10)
	}
	if c.space == byNodePort {
		return "nodeport-" + name
	}
	return name
}
