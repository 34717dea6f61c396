package ipvs

import (
	nft "github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/nodekit-go/nodekit/proxier"
)

// chain is a base chain of the table with its rules.
type chain struct {
	name     string
	kind     nft.ChainType
	hook     *nft.ChainHook
	priority nft.ChainPriority
	// all says that the rules see every packet and not only first ones.
	all   bool
	rules []rule
}

// IPVS takes packets to virtual servers at hook input with priority 99, and those of the
// node itself at hook output with priority -98; from there on they are sent anew, through
// the hooks output and postrouting, with the endpoint as the destination. What it decides
// by has to be there before, and what it is not to see has to be refused before
// (ip_vs_ops4 and ip_vs_ops6 in net/netfilter/ipvs/ip_vs_core.c).
const (
	marking     nft.ChainPriority = -150
	beforeIPVS  nft.ChainPriority = -110
	afterIPVS   nft.ChainPriority = -90
	filtering   nft.ChainPriority = 0
	translating nft.ChainPriority = 100
)

// chains returns the base chains in the order in which packets meet them.
func (p *program) chains() []chain {
	return []chain{
		{name: "prerouting", kind: nft.ChainTypeFilter, hook: nft.ChainHookPrerouting, priority: marking, rules: p.prerouting()},
		{name: "input", kind: nft.ChainTypeFilter, hook: nft.ChainHookInput, priority: filtering, rules: p.input()},
		{name: "forward", kind: nft.ChainTypeFilter, hook: nft.ChainHookForward, priority: filtering, rules: p.unassigned()},
		{name: "output", kind: nft.ChainTypeFilter, hook: nft.ChainHookOutput, priority: beforeIPVS, rules: p.output()},
		{name: "output-sent", kind: nft.ChainTypeFilter, hook: nft.ChainHookOutput, priority: afterIPVS, all: true, rules: p.sent()},
		{name: "postrouting", kind: nft.ChainTypeNAT, hook: nft.ChainHookPostrouting, priority: translating, all: true, rules: p.postrouting()},
	}
}

// prerouting marks connections of others: those to masquerade, and those of pods that may
// use every endpoint of a Service with externalTrafficPolicy Local.
func (p *program) prerouting() []rule {
	var out []rule
	switch {
	case p.masqueradeAll:
		out = append(out, p.to(internal).then(setBits(p.masquerade)...))
	case p.local.Detects(p.family):
		out = append(out, p.to(internal).then(foreign(p.local, p)...).then(setBits(p.masquerade)...))
	}
	for _, in := range []object{external, atNode} {
		out = append(out, p.to(in).then(setBits(p.masquerade)...))
	}
	for _, from := range fromPods(p.local, p) {
		out = append(out, from.then(p.toShortcut()...))
	}
	return out
}

// input lets connections to fronts through to IPVS, and no others to addresses of
// Services: what listens on all addresses of the node shall not answer there. Load balancers
// that pass packets on ask for the health of the node at the address that they serve.
func (p *program) input() []rule {
	accept := verdict(expr.VerdictReturn)
	out := []rule{
		p.toFirewalled().then(verdict(expr.VerdictDrop)),
		p.to(refused).then(p.reject()),
		marked(shortcutMask, p.shortcuts).then(accept),
		p.to(dropped).then(verdict(expr.VerdictDrop)),
	}
	for _, in := range []object{internal, external, externalLocal, localOnly} {
		out = append(out, p.to(in).then(accept))
	}
	out = append(out, p.toHealthPort().then(accept))
	for _, proto := range []proxier.Protocol{proxier.TCP, proxier.UDP, proxier.SCTP} {
		out = append(out, ported(proto).then(p.destinationIn(serviceIPs)...).then(p.reject()))
	}
	return out
}

// output does for connections of the node itself what prerouting and input do for others.
// Their source is the address of the Service, unless the process chose another one.
func (p *program) output() []rule {
	out := []rule{
		p.toFirewalled().then(verdict(expr.VerdictDrop)),
		p.to(refused).then(p.reject()),
		p.toShortcut().then(verdict(expr.VerdictReturn)),
		p.to(dropped).then(verdict(expr.VerdictDrop)),
	}
	mark := setBits(p.masquerade)
	switch {
	case p.masqueradeAll:
		out = append(out, p.to(internal).then(mark...))
	case p.local.Detects(p.family):
		out = append(out, p.to(internal).then(foreign(p.local, p)...).then(mark...))
	}
	for _, in := range []object{internal, localOnly} {
		out = append(out, p.to(in).then(p.sourceIn(serviceIPs)...).then(mark...))
	}
	for _, in := range []object{external, atNode} {
		out = append(out, p.to(in).then(mark...))
	}
	return append(out, p.unassigned()...)
}

// sent takes the mark of a virtual server from what IPVS has sent on. Connections of the
// node itself are masqueraded, since an endpoint may not know a way back to the address
// that they have.
func (p *program) sent() []rule {
	ours := marked(shortcutMask, p.shortcuts)
	return []rule{
		ours.then(fromThisNode()...).then(setMark(p.masquerade)...),
		ours.then(setMark(0)...),
	}
}

// postrouting masquerades. What leaves by lo stays on the node, and would find no address
// to take.
func (p *program) postrouting() []rule {
	masquerade := &expr.Masq{FullyRandom: true}
	return []rule{
		leavingBy("lo").then(verdict(expr.VerdictReturn)),
		marked(p.masquerade, p.masquerade).then(xorMark(^uint32(0), p.masquerade)...).then(masquerade),
		p.hairpin().then(masquerade),
	}
}

// unassigned drops connections to an address from which cluster IPs are taken and that no
// Service has: nobody else can have it, and a route would lead outside.
func (p *program) unassigned() []rule {
	var out []rule
	for _, r := range proxier.PrefixesOf(p.family, p.serviceCIDRs) {
		known := &expr.Lookup{SourceRegister: reg, SetName: serviceIPs.String(), Invert: true}
		out = append(out, inPrefix(p.destination(reg), r, expr.CmpOpEq).then(p.destination(reg), known, verdict(expr.VerdictDrop)))
	}
	return out
}
