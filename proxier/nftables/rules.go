package nftables

import (
	"encoding/binary"
	"net/netip"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/proxier"
)

// Rules load the parts of a key into consecutive 32-bit registers and look the
// whole up at once. reg is the first; there are sixteen of them
// (NFT_REG32_00 in linux/netfilter/nf_tables.h).
const reg = unix.NFT_REG32_00

// assembler writes the rules of one family. Names of sets and chains go through
// setName and chainName, which add the prefix of the generation.
type assembler struct {
	family    proxier.Family
	setName   func(object) string
	chainName func(chain) string
	// affinity is the name of the map of pinned clients.
	affinity string
}

// rule is the expressions of one rule.
type rule []expr.Any

// then appends expressions to a copy of r.
func (r rule) then(more ...expr.Any) rule {
	return append(append(rule(nil), r...), more...)
}

// addrRegs is the number of registers that an address takes.
func (a *assembler) addrRegs() uint32 {
	if a.family == proxier.IPv6 {
		return 4
	}
	return 1
}

// header loads an address of the IP header.
func (a *assembler) header(at, v4Offset, v6Offset uint32) expr.Any {
	p := &expr.Payload{DestRegister: at, Base: expr.PayloadBaseNetworkHeader, Offset: v4Offset, Len: 4}
	if a.family == proxier.IPv6 {
		p.Offset, p.Len = v6Offset, 16
	}
	return p
}

// Offsets in the IPv4 (RFC 791) and IPv6 (RFC 8200) headers.
func (a *assembler) source(at uint32) expr.Any      { return a.header(at, 12, 8) }
func (a *assembler) destination(at uint32) expr.Any { return a.header(at, 16, 24) }

// protocol and port load the transport protocol and the destination port,
// which TCP, UDP and SCTP have at the same place.
func protocol(at uint32) expr.Any { return &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: at} }

func port(at uint32) expr.Any {
	return &expr.Payload{DestRegister: at, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}
}

// frontendKey loads the key of a frontend and returns the next free register.
func (a *assembler) frontendKey(sp space) (rule, uint32) {
	var r rule
	at := uint32(reg)
	if sp == byAddr {
		r = r.then(a.destination(at))
		at += a.addrRegs()
	}
	return r.then(protocol(at), port(at+1)), at + 2
}

// verdictBy looks a frontend up in a class map and goes to the chain that is found.
// The number of the chain goes from rule to rule in the packet's priority: of all
// that rules may write it is what nobody misses, since the kernel sets it from the
// type of service when it routes a packet on, and only the first packet of a
// connection comes here. One rule would do with a lookup whose result is the key of
// another, which nft 1.0.6 aborts on when it lists the rule.
func (a *assembler) verdictBy(sp space, in object) rule {
	r, _ := a.frontendKey(sp)
	return r.then(
		&expr.Lookup{SourceRegister: reg, DestRegister: reg, IsDestRegSet: true, SetName: a.setName(in)},
		carry(reg), a.goTo(classifier(in)))
}

// classify goes to the chain whose number the packet carries.
func (a *assembler) classify(by object) rule {
	return rule{
		&expr.Meta{Key: expr.MetaKeyPRIORITY, Register: reg},
		&expr.Lookup{SourceRegister: reg, SetName: a.setName(by), IsDestRegSet: true},
	}
}

// carry has the packet carry what is in a register.
func carry(at uint32) expr.Any {
	return &expr.Meta{Key: expr.MetaKeyPRIORITY, SourceRegister: true, Register: at}
}

// carryNothing takes from the packet what it carries, by way of a register that no key
// reaches to.
func carryNothing() rule {
	const zero = unix.NFT_REG32_15
	return rule{&expr.Immediate{Register: zero, Data: nativeEndian(0)}, carry(zero)}
}

// random draws a number in [offset, offset+n).
func random(at, n, offset uint32) expr.Any {
	return &expr.Numgen{Register: at, Modulus: n, Type: unix.NFT_NG_RANDOM, Offset: offset}
}

// dnat rewrites the destination to the endpoint in the registers from at on.
func (a *assembler) dnat(at uint32) expr.Any {
	family := uint32(unix.NFPROTO_IPV4)
	if a.family == proxier.IPv6 {
		family = unix.NFPROTO_IPV6
	}
	return &expr.NAT{
		Type: expr.NATTypeDestNAT, Family: family,
		RegAddrMin: at, RegProtoMin: at + a.addrRegs(), Specified: true,
	}
}

// draw has a packet carry one of the first n slot numbers and goes to the chain that
// picks its endpoint. That lookup is in one chain for all n: a kernel that binds a map to
// a chain first walks over all of its elements.
func (a *assembler) draw(n uint32, next chain) rule {
	return rule{random(reg, n, 0), carry(reg), a.goTo(next)}
}

// pick holds the rules that send a connection to the slot that it carries, after it has
// got rid of that. A slot that is being taken away between the lookups of a connection is
// missed: the second rule, which is the same, then takes slot 0, which is there as long
// as the list is.
func (a *assembler) pick(sp space, in object) []rule {
	r, at := a.frontendKey(sp)
	r = append(r.then(&expr.Meta{Key: expr.MetaKeyPRIORITY, Register: at}), carryNothing()...)
	r = r.then(
		&expr.Lookup{SourceRegister: reg, DestRegister: reg, IsDestRegSet: true, SetName: a.setName(in)},
		a.dnat(reg))
	return []rule{r, r}
}

func nativeEndian(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

// xorMark changes the packet mark to (mark & mask) ^ xor.
func xorMark(mask, xor uint32) rule {
	return rule{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: reg},
		&expr.Bitwise{SourceRegister: reg, DestRegister: reg, Len: 4, Mask: nativeEndian(mask), Xor: nativeEndian(xor)},
		&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: reg},
	}
}

// setMark sets the bits of mark.
func setMark(mark uint32) rule { return xorMark(^mark, mark) }

// masquerade clears the mark, so that a packet that passes again is left alone,
// and takes the address of the outgoing interface as the source. The source
// port is drawn at random: sequential search collides under load.
func masquerade(mark uint32) rule {
	test := rule{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: reg},
		&expr.Bitwise{SourceRegister: reg, DestRegister: reg, Len: 4, Mask: nativeEndian(mark), Xor: nativeEndian(0)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: reg, Data: nativeEndian(0)},
	}
	return test.then(xorMark(^uint32(0), mark)...).then(&expr.Masq{FullyRandom: true})
}

// ctStatusDNAT is IPS_DST_NAT of linux/netfilter/nf_conntrack_common.h.
const ctStatusDNAT = 1 << 5

// hairpins masquerades a pod's connections to itself: the answer has to come
// back through the node.
func (a *assembler) hairpins() rule {
	at := reg + 2*a.addrRegs()
	return rule{
		&expr.Ct{Key: expr.CtKeySTATUS, Register: reg},
		&expr.Bitwise{SourceRegister: reg, DestRegister: reg, Len: 4, Mask: nativeEndian(ctStatusDNAT), Xor: nativeEndian(0)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: reg, Data: nativeEndian(0)},
		a.source(reg), a.destination(reg + a.addrRegs()), protocol(at), port(at + 1),
		&expr.Lookup{SourceRegister: reg, SetName: a.setName(hairpin)},
		&expr.Masq{FullyRandom: true},
	}
}

// newConnection matches the first packet of a connection.
func newConnection() rule {
	return rule{
		&expr.Ct{Key: expr.CtKeySTATE, Register: reg},
		&expr.Bitwise{
			SourceRegister: reg, DestRegister: reg, Len: 4,
			Mask: nativeEndian(expr.CtStateBitNEW), Xor: nativeEndian(0),
		},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: reg, Data: nativeEndian(0)},
	}
}

// ofThisNode matches packets whose source or destination is an address of this
// node. rtnLocal is RTN_LOCAL of linux/rtnetlink.h.
func ofThisNode(fib expr.Fib) rule {
	const rtnLocal = 2
	fib.Register, fib.ResultADDRTYPE = reg, true
	return rule{&fib, &expr.Cmp{Op: expr.CmpOpEq, Register: reg, Data: nativeEndian(rtnLocal)}}
}

// inPrefix compares an address that load puts into reg with a prefix.
func inPrefix(load expr.Any, p netip.Prefix, op expr.CmpOp) rule {
	p = p.Masked()
	addr := p.Addr().AsSlice()
	r := rule{load}
	if p.Bits() < len(addr)*8 {
		mask := make([]byte, len(addr))
		for i := range p.Bits() {
			mask[i/8] |= 0x80 >> (i % 8)
		}
		n := uint32(len(addr))
		r = r.then(&expr.Bitwise{SourceRegister: reg, DestRegister: reg, Len: n, Mask: mask, Xor: make([]byte, n)})
	}
	return r.then(&expr.Cmp{Op: op, Register: reg, Data: addr})
}

// inSet matches packets whose destination address is in a set of addresses.
func (a *assembler) inSet(in object) rule {
	return rule{a.destination(reg), &expr.Lookup{SourceRegister: reg, SetName: a.setName(in)}}
}

// refuse answers with ICMP port unreachable (RFC 792 and RFC 4443), which
// clients of TCP and UDP see as "connection refused".
func (a *assembler) refuse() rule {
	if a.family == proxier.IPv6 {
		const portUnreachable6 = 4
		return rule{&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: portUnreachable6}}
	}
	const portUnreachable = 3
	return rule{&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: portUnreachable}}
}

func (a *assembler) goTo(c chain) expr.Any {
	return &expr.Verdict{Kind: expr.VerdictGoto, Chain: a.chainName(c)}
}

func (a *assembler) jumpTo(c chain) expr.Any {
	return &expr.Verdict{Kind: expr.VerdictJump, Chain: a.chainName(c)}
}
