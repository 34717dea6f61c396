package nftables

import (
	"net/netip"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/proxier"
)

// program writes the chains of one family under one configuration. It is pure:
// the same input gives the same rules.
type program struct {
	assembler
	mark          uint32
	local         Local
	nodePortAddrs []netip.Prefix
	serviceCIDRs  []netip.Prefix
}

// chainRules returns the rules of a chain, except those of an affinity chain,
// which come from pinnedRules.
func (p *program) chainRules(c chain) []rule {
	switch c.kind {
	case balance:
		return []rule{p.draw(c.n, chain{kind: pick, space: c.space})}
	case local:
		return []rule{p.draw(c.n, chain{kind: pickLocal, space: c.space})}
	case pick, pickLocal:
		return p.pick(c.space, c.space.of(slotsOf(c.kind)))
	case cluster, affinityCluster:
		return []rule{foreign(p.local, &p.assembler).then(setMark(p.mark)...), {p.goTo(c.without())}}
	case external, affinityExternal:
		return []rule{setMark(p.mark), {p.goTo(c.without())}}
	case policyLocal:
		return p.policyLocal(c.space)
	case reject:
		return []rule{p.refuse()}
	case entryServices:
		return p.entryServices()
	case entryMasquerade:
		return []rule{masquerade(p.mark), p.hairpins()}
	case classify, classifyPolicy, classifyRefusal:
		return []rule{p.classify(classMapOf(c.kind))}
	case entryInput:
		return append(p.toNodePort(nodePortNoEndpoints), p.verdictBy(byAddr, noEndpoints))
	case entryForward:
		return append([]rule{
			p.verdictBy(byAddr, noEndpoints),
			p.inSet(clusterIPs).then(p.goTo(chain{kind: reject})),
		}, p.unassigned()...)
	case entryFirewall:
		return []rule{p.firewall()}
	}
	return nil
}

// slotsOf returns the map that a chain picks from.
func slotsOf(k chainKind) object {
	if k == pickLocal {
		return localEndpoints
	}
	return endpoints
}

// classMapOf returns the map that a chain classifies by.
func classMapOf(k chainKind) object {
	switch k {
	case classifyPolicy:
		return policyClasses
	case classifyRefusal:
		return refusals
	}
	return classes
}

// without returns the chain that c goes to after it has marked a packet.
func (c chain) without() chain {
	switch c.kind {
	case cluster, external:
		c.kind = balance
	case affinityCluster, affinityExternal:
		c.kind = affinity
	default:
		return chain{}
	}
	return c
}

// entryServices looks a connection up by address, then by node port. The lookup
// by address stands twice: kernels before the fix of the lookup in sets under
// change (mainline commit b2f742c846ca) may miss an element that is being
// replaced, once.
func (p *program) entryServices() []rule {
	lookup := p.verdictBy(byAddr, services)
	return append([]rule{lookup, lookup}, p.toNodePort(nodePortServices)...)
}

// toNodePort looks the destination port up if the destination is an address of
// this node at which node ports answer. Loopback is not one.
func (p *program) toNodePort(in object) []rule {
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	if p.family == proxier.IPv6 {
		loopback = netip.MustParsePrefix("::1/128")
	}
	own := ofThisNode(expr.Fib{FlagDADDR: true})
	own = own.then(inPrefix(p.destination(reg), loopback, expr.CmpOpNeq)...)
	lookup := p.verdictBy(byNodePort, in)
	prefixes := proxier.PrefixesOf(p.family, p.nodePortAddrs)
	if len(prefixes) == 0 {
		return []rule{own.then(lookup...)}
	}
	var out []rule
	for _, prefix := range prefixes {
		out = append(out, own.then(inPrefix(p.destination(reg), prefix, expr.CmpOpEq)...).then(lookup...))
	}
	return out
}

// unassigned drops connections to an address from which cluster IPs are taken and
// that no Service has: nobody else can have it, and a route would lead outside.
func (p *program) unassigned() []rule {
	var out []rule
	for _, r := range proxier.PrefixesOf(p.family, p.serviceCIDRs) {
		out = append(out, inPrefix(p.destination(reg), r, expr.CmpOpEq).then(&expr.Verdict{Kind: expr.VerdictDrop}))
	}
	return out
}

// policyLocal lets pods and this node use the whole list, and others the local
// one. The node's own connections are masqueraded, since the endpoint may not
// know a way back to the address they have; those of pods are not.
func (p *program) policyLocal(sp space) []rule {
	all := p.verdictBy(sp, sp.of(shortCircuit))
	var out []rule
	for _, from := range fromPods(p.local, &p.assembler) {
		out = append(out, from.then(all...))
	}
	node := ofThisNode(expr.Fib{FlagSADDR: true})
	return append(out, node.then(setMark(p.mark)...), node.then(all...), p.verdictBy(sp, sp.of(localServices)))
}

// firewall drops connections to an address with source ranges from elsewhere.
func (p *program) firewall() rule {
	r, at := p.frontendKey(byAddr)
	return r.then(
		&expr.Lookup{SourceRegister: reg, SetName: p.setName(firewallVIPs)},
		p.source(at),
		&expr.Lookup{SourceRegister: reg, SetName: p.setName(firewallSources), Invert: true},
		&expr.Verdict{Kind: expr.VerdictDrop})
}

// sparseTries is how often a rule draws a slot when some are empty. At least
// half are taken, so that one in 256 connections stays without a pin at worst.
const sparseTries = 8

// dynsetDelete is NFT_DYNSET_OP_DELETE of linux/netfilter/nf_tables.h.
const dynsetDelete = 2

// pinnedRules returns the rules of an affinity chain: forget what an earlier
// rule carried, fetch the client's slot, use it if there is an endpoint in it,
// else forget it and pin the client to a random slot. The slot goes from rule
// to rule in the packet's priority, which starts at 0 for most packets and is
// set by the routing code later for forwarded ones; the packet mark, the other
// thing that rules may write, belongs to others. Doing it in one rule would
// need the result of one lookup as the key of the next, which nft 1.0.6 aborts
// on when it lists the rule.
func (p *program) pinnedRules(l pinnedList) []rule {
	priority := func(load bool, at uint32) expr.Any {
		return &expr.Meta{Key: expr.MetaKeyPRIORITY, SourceRegister: !load, Register: at}
	}
	number := func(at, v uint32) expr.Any { return &expr.Immediate{Register: at, Data: nativeEndian(v)} }
	slot, client, ep := uint32(reg), uint32(reg+1), uint32(reg+1)+1+p.addrRegs()
	clientKey := rule{number(client, l.client), p.source(client + 1)}
	pin := func(operation uint32) expr.Any {
		d := &expr.Dynset{SrcRegKey: client, SrcRegData: slot, SetName: p.affinity, Operation: operation}
		if operation != dynsetDelete {
			d.Timeout = l.timeout
		}
		return d
	}
	toEndpoint := &expr.Lookup{SourceRegister: slot, DestRegister: ep, IsDestRegSet: true, SetName: p.setName(affinitySlots)}
	base := l.chain.n * maxPins

	rules := []rule{
		{number(slot, emptySlot), priority(false, slot)},
		clientKey.then(
			&expr.Lookup{SourceRegister: client, DestRegister: slot, IsDestRegSet: true, SetName: p.affinity},
			priority(false, slot)),
		rule{priority(true, slot), toEndpoint}.then(clientKey...).then(
			pin(unix.NFT_DYNSET_OP_UPDATE), number(slot, 0), priority(false, slot), p.dnat(ep)),
		rule{number(slot, 0), priority(false, slot)}.then(clientKey...).then(pin(dynsetDelete)),
	}
	draw := rule{random(slot, l.width, base), toEndpoint}.then(clientKey...).then(
		pin(unix.NFT_DYNSET_OP_UPDATE), p.dnat(ep))
	tries := 1
	if l.sparse {
		tries = sparseTries
	}
	for range tries {
		rules = append(rules, draw)
	}
	return append(rules, rule{p.goTo(l.fallback)})
}

// emptySlot is a slot number that no endpoint has: lists start at number 1.
const emptySlot = 0
