package nftables

import (
	"strconv"

	"github.com/nodekit-go/nodekit/proxier"
)

// object is a set or map of a generation. Every ServicePort of a family shares
// the same few objects.
type object uint8

const (
	// services says what becomes of a connection to an address: the number of the
	// chain that picks an endpoint.
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
	// classes says which chain a number stands for: one element for each chain. The
	// kernel validates every map of verdicts as a whole, all chains behind it
	// included, whenever one of them changes; these are small, whatever the number
	// of Services. policyClasses are those that the chain policy-local leads to, which
	// must not lead back to it, and refusals those of filters, which cannot rewrite.
	classes
	policyClasses
	refusals
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
	// classMap maps to the number of a chain, and verdictMap to the chain.
	classMap
	verdictMap
)

// objectSpec describes an object.
type objectSpec struct {
	name  string
	class class
	key   []component
	// early objects are read only by way of others: their new elements are
	// committed before what leads to them, or with it.
	early bool
}

// objectSpecs describes the objects.
//
//nolint:gochecknoglobals // a table that nothing changes
var objectSpecs = [objectCount]objectSpec{
	services:               {name: "services", class: classMap, key: []component{partAddr, partProto, partPort}},
	endpoints:              {name: "endpoints", class: endpointMap, early: true, key: []component{partAddr, partProto, partPort, partNumber}},
	shortCircuit:           {name: "short-circuit", class: classMap, key: []component{partAddr, partProto, partPort}},
	localServices:          {name: "local-services", class: classMap, key: []component{partAddr, partProto, partPort}},
	localEndpoints:         {name: "local-endpoints", class: endpointMap, early: true, key: []component{partAddr, partProto, partPort, partNumber}},
	noEndpoints:            {name: "no-endpoints", class: classMap, key: []component{partAddr, partProto, partPort}},
	nodePortServices:       {name: "nodeport-services", class: classMap, key: []component{partProto, partPort}},
	nodePortEndpoints:      {name: "nodeport-endpoints", class: endpointMap, early: true, key: []component{partProto, partPort, partNumber}},
	nodePortShortCircuit:   {name: "nodeport-short-circuit", class: classMap, key: []component{partProto, partPort}},
	nodePortLocalServices:  {name: "nodeport-local-services", class: classMap, key: []component{partProto, partPort}},
	nodePortLocalEndpoints: {name: "nodeport-local-endpoints", class: endpointMap, early: true, key: []component{partProto, partPort, partNumber}},
	nodePortNoEndpoints:    {name: "nodeport-no-endpoints", class: classMap, key: []component{partProto, partPort}},
	clusterIPs:             {name: "cluster-ips", key: []component{partAddr}},
	hairpin:                {name: "hairpin", early: true, key: []component{partAddr, partAddr, partProto, partPort}},
	firewallVIPs:           {name: "firewall-vips", key: []component{partAddr, partProto, partPort}},
	firewallSources:        {name: "firewall-sources", key: []component{partAddr, partProto, partPort, partSource}},
	affinitySlots:          {name: "affinity-slots", class: endpointMap, early: true, key: []component{partNumber}},
	classes:                {name: "classes", class: verdictMap, key: []component{partNumber}},
	policyClasses:          {name: "policy-classes", class: verdictMap, key: []component{partNumber}},
	refusals:               {name: "refusals", class: verdictMap, key: []component{partNumber}},
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
	// balance-K draws one of K slots.
	balance
	// cluster-K marks connections from off the cluster for masquerade, then
	// balances; external-K marks all.
	cluster
	external
	// local-K draws one of K slots of local endpoints.
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
	// classify, classifyPolicy and classifyRefusal go to the chain whose number a
	// packet carries.
	classify
	classifyPolicy
	classifyRefusal
	// The entry chains of the hooks.
	entryServices
	entryMasquerade
	entryInput
	entryForward
	entryFirewall
	// pick sends a packet to the endpoint in the slot whose number it carries, and
	// pickLocal to a local one.
	pick
	pickLocal
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
	classify:         "classify",
	classifyPolicy:   "classify-policy",
	classifyRefusal:  "classify-refusal",
	entryServices:    "services",
	entryMasquerade:  "masquerade",
	entryInput:       "input",
	entryForward:     "forward",
	entryFirewall:    "firewall",
	pick:             "pick",
	pickLocal:        "local-pick",
}

// chain names a chain of a generation. It is a value, so that it can be
// compared and counted without building its name.
type chain struct {
	kind  chainKind
	space space
	n     uint32
}

// classesOf returns the maps that lead from a number to chains of a kind.
func classesOf(k chainKind) []object {
	switch k {
	case dropVerdict, reject:
		return []object{refusals}
	case policyLocal:
		return []object{classes}
	case balance, cluster, external, local, affinity, affinityLocal, affinityCluster, affinityExternal:
		return []object{classes, policyClasses}
	}
	return nil
}

// classifier returns the chain that goes on from what a class map has said.
func classifier(in object) chain {
	switch in {
	case shortCircuit, localServices, nodePortShortCircuit, nodePortLocalServices:
		return chain{kind: classifyPolicy}
	case noEndpoints, nodePortNoEndpoints:
		return chain{kind: classifyRefusal}
	}
	return chain{kind: classify}
}

// number is what stands for c in class maps: the kind in the first byte, then a bit
// for the space, then n. Packets carry it as their priority from one rule to the
// next; the values that programs and routing give are far below.
func (c chain) number() uint32 {
	return uint32(c.kind)<<24 | uint32(c.space)<<23 | c.n&(1<<23-1)
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
