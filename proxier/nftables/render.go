package nftables

import (
	"net/netip"

	"github.com/nodekit-go/nodekit/proxier"
)

// entry is what is in force for one ServicePort: the ServicePort itself, and in
// which slots its endpoints are.
type entry struct {
	// input is what the caller gave, port what was admitted of it: mostly the same.
	input, port *proxier.ServicePort
	cluster     []proxier.Endpoint
	local       []proxier.Endpoint
	// pins is nil without session affinity.
	pins *pins
}

// next returns the entry that puts port in the place of e, which may be nil.
func (e *entry) next(port *proxier.ServicePort) *entry {
	n := &entry{input: port, port: port, cluster: port.Cluster, local: port.Local}
	if e != nil {
		n.cluster = place(e.cluster, port.Cluster)
		n.local = place(e.local, port.Local)
	}
	return n
}

// list is an endpoint list bound to a key: slot i maps to endpoint i.
type list struct {
	in    object
	key   key
	slots []proxier.Endpoint
}

// view is everything that one ServicePort needs in the kernel.
type view struct {
	elements []element
	lists    []list
	// shared elements may be needed by several ServicePorts: they are counted.
	shared []element
	pinned []pinnedList
}

// policy is the part of the configuration that decides which chains a frontend
// uses.
type policy uint8

const (
	// masqueradeNothing leaves connections to cluster IPs as they are.
	masqueradeNothing policy = iota
	// masqueradeForeign masquerades those whose source is not of the cluster.
	masqueradeForeign
	// masqueradeAll masquerades all.
	masqueradeAll
)

// render returns what e needs. It is a pure function.
func render(e *entry, p policy) view {
	var v view
	if e == nil {
		return v
	}
	for _, f := range e.port.Frontends {
		v.frontend(e, f, p)
	}
	v.hairpins(e)
	return v
}

// frontend renders one frontend.
func (v *view) frontend(e *entry, f proxier.Frontend, p policy) {
	sp := spaceOf(f)
	k := key{addr: f.Addr, proto: e.port.Key.Protocol, port: f.Port}
	if f.Kind == proxier.ClusterIP {
		v.shared = append(v.shared, element{in: clusterIPs, key: key{addr: f.Addr}})
	}
	if f.Kind == proxier.LoadBalancer {
		v.firewall(e.port, k)
	}
	switch {
	case !e.port.HasEndpoints:
		v.verdict(sp.of(noEndpoints), k, chain{kind: reject})
	case f.Kind.External() && e.port.ExternalLocal:
		v.externalLocal(e, sp, k)
	case f.Kind.External():
		v.balanced(e, sp, k, e.clusterList(), external)
	case e.port.InternalLocal:
		v.balanced(e, sp, k, e.localList(), clusterChain(p))
	default:
		v.balanced(e, sp, k, e.clusterList(), clusterChain(p))
	}
}

// clusterChain returns the chain that a cluster IP uses.
func clusterChain(p policy) chainKind {
	switch p {
	case masqueradeAll:
		return external
	case masqueradeForeign:
		return cluster
	}
	return balance
}

// balanced sends all connections to one list, or drops them when it is empty.
func (v *view) balanced(e *entry, sp space, k key, l entryList, kind chainKind) {
	if len(l.slots) == 0 {
		v.verdict(sp.of(noEndpoints), k, chain{kind: dropVerdict})
		return
	}
	v.lists = append(v.lists, list{in: sp.of(endpoints), key: k, slots: l.slots})
	c := chain{kind: kind, space: sp, n: uint32(len(l.slots))}
	v.verdict(sp.of(services), k, v.pin(e, l, c))
}

// externalLocal renders externalTrafficPolicy Local: connections from the node
// and its pods may use every endpoint, those from elsewhere only local ones.
func (v *view) externalLocal(e *entry, sp space, k key) {
	v.verdict(sp.of(services), k, chain{kind: policyLocal, space: sp})
	if l := e.clusterList(); len(l.slots) > 0 {
		v.lists = append(v.lists, list{in: sp.of(endpoints), key: k, slots: l.slots})
		c := chain{kind: balance, space: sp, n: uint32(len(l.slots))}
		v.verdict(sp.of(shortCircuit), k, v.pin(e, l, c))
	}
	l := e.localList()
	if len(l.slots) == 0 {
		v.verdict(sp.of(noEndpoints), k, chain{kind: dropVerdict})
		return
	}
	v.lists = append(v.lists, list{in: sp.of(localEndpoints), key: k, slots: l.slots})
	c := chain{kind: local, space: sp, n: uint32(len(l.slots))}
	v.verdict(sp.of(localServices), k, v.pin(e, l, c))
}

func (v *view) verdict(in object, k key, to chain) {
	v.elements = append(v.elements, element{in: in, key: k, value: value{to: to}})
}

// firewall renders the source ranges of a load balancer address.
func (v *view) firewall(port *proxier.ServicePort, k key) {
	if len(port.SourceRanges) == 0 {
		return
	}
	v.elements = append(v.elements, element{in: firewallVIPs, key: k})
	for _, r := range port.SourceRanges {
		k.source = r
		v.elements = append(v.elements, element{in: firewallSources, key: k})
	}
}

// hairpins renders the connections of local endpoints to themselves. An
// endpoint in both lists counts once.
func (v *view) hairpins(e *entry) {
	seen := make(map[netip.AddrPort]bool)
	lists := [][]proxier.Endpoint{e.cluster}
	if e.port.InternalLocal || e.port.ExternalLocal {
		lists = append(lists, e.local)
	}
	for _, slots := range lists {
		for _, ep := range slots {
			if !ep.Local || seen[ep.Addr] {
				continue
			}
			seen[ep.Addr] = true
			k := key{addr: ep.Addr.Addr(), proto: e.port.Key.Protocol, port: ep.Addr.Port()}
			v.shared = append(v.shared, element{in: hairpin, key: k})
		}
	}
}
