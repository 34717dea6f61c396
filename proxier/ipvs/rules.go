package ipvs

import (
	"encoding/binary"
	"net/netip"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/proxier"
)

// Rules load the parts of a key into consecutive 32-bit registers and look the whole up at
// once. reg is the first (NFT_REG32_00 in linux/netfilter/nf_tables.h).
const reg = unix.NFT_REG32_00

// rule is the expressions of one rule.
type rule []expr.Any

// then appends expressions to a copy of r.
func (r rule) then(more ...expr.Any) rule {
	return append(append(rule(nil), r...), more...)
}

// program writes the rules of one family under one configuration. It is pure.
type program struct {
	family proxier.Family
	// masquerade is the mark of packets to masquerade. shortcuts are the sixteen high bits
	// of the marks of virtual servers.
	masquerade, shortcuts uint32
	masqueradeAll         bool
	local                 Local
	serviceCIDRs          []netip.Prefix
}

// shortcutMask are the bits of a mark that say that it is one of a virtual server.
const shortcutMask = 0xffff0000

func (p *program) addrRegs() uint32 {
	if p.family == proxier.IPv6 {
		return 4
	}
	return 1
}

// header loads an address of the IP header: offsets of RFC 791 and RFC 8200.
func (p *program) header(at, v4Offset, v6Offset uint32) expr.Any {
	load := &expr.Payload{DestRegister: at, Base: expr.PayloadBaseNetworkHeader, Offset: v4Offset, Len: 4}
	if p.family == proxier.IPv6 {
		load.Offset, load.Len = v6Offset, 16
	}
	return load
}

func (p *program) source(at uint32) expr.Any      { return p.header(at, 12, 8) }
func (p *program) destination(at uint32) expr.Any { return p.header(at, 16, 24) }

func protocol(at uint32) expr.Any { return &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: at} }

// port loads the destination port, which TCP, UDP and SCTP have at the same place.
func port(at uint32) expr.Any {
	return &expr.Payload{DestRegister: at, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}
}

// to matches packets to a front in an object.
func (p *program) to(in object) rule {
	at := reg + p.addrRegs()
	return rule{p.destination(reg), protocol(at), port(at + 1), &expr.Lookup{SourceRegister: reg, SetName: in.String()}}
}

// toFirewalled matches packets to a front with source ranges from others.
func (p *program) toFirewalled() rule {
	at := reg + p.addrRegs()
	return p.to(firewalled).then(
		p.destination(reg), protocol(at), port(at+1), p.source(at+2),
		&expr.Lookup{SourceRegister: reg, SetName: sources.String(), Invert: true})
}

// toShortcut gives packets the mark of the virtual server for connections from here.
func (p *program) toShortcut() rule {
	at := reg + p.addrRegs()
	return rule{
		p.destination(reg), protocol(at), port(at + 1),
		&expr.Lookup{SourceRegister: reg, DestRegister: reg, IsDestRegSet: true, SetName: externalLocal.String()},
		writeMark(),
	}
}

func (p *program) sourceIn(in object) rule {
	return rule{p.source(reg), &expr.Lookup{SourceRegister: reg, SetName: in.String()}}
}

func (p *program) destinationIn(in object) rule {
	return rule{p.destination(reg), &expr.Lookup{SourceRegister: reg, SetName: in.String()}}
}

// toHealthPort matches packets to a port in healthPorts, whatever their address.
func (p *program) toHealthPort() rule {
	return rule{protocol(reg), port(reg + 1), &expr.Lookup{SourceRegister: reg, SetName: healthPorts.String()}}
}

// hairpin matches packets of a pod to itself.
func (p *program) hairpin() rule {
	at := reg + 2*p.addrRegs()
	return rule{
		p.source(reg), p.destination(reg + p.addrRegs()), protocol(at), port(at + 1),
		&expr.Lookup{SourceRegister: reg, SetName: hairpins.String()},
	}
}

// ported matches the protocols that Services may have: others, such as ping, are answered.
func ported(proto proxier.Protocol) rule {
	return rule{protocol(reg), &expr.Cmp{Op: expr.CmpOpEq, Register: reg, Data: []byte{byte(proto)}}}
}

func nativeEndian(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

func writeMark() expr.Any {
	return &expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: reg}
}
func readMark() expr.Any { return &expr.Meta{Key: expr.MetaKeyMARK, Register: reg} }

// xorMark changes the mark to (mark & mask) ^ xor.
func xorMark(mask, xor uint32) rule {
	return rule{
		readMark(),
		&expr.Bitwise{SourceRegister: reg, DestRegister: reg, Len: 4, Mask: nativeEndian(mask), Xor: nativeEndian(xor)},
		writeMark(),
	}
}

// setBits sets bits of the mark.
func setBits(mark uint32) rule { return xorMark(^mark, mark) }

// setMark sets all of the mark.
func setMark(mark uint32) rule {
	return rule{&expr.Immediate{Register: reg, Data: nativeEndian(mark)}, writeMark()}
}

// marked matches packets whose mark, of the bits in mask, is value.
func marked(mask, value uint32) rule {
	return rule{
		readMark(),
		&expr.Bitwise{SourceRegister: reg, DestRegister: reg, Len: 4, Mask: nativeEndian(mask), Xor: nativeEndian(0)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: reg, Data: nativeEndian(value)},
	}
}

// newConnection matches the first packet of a connection.
func newConnection() rule {
	return rule{
		&expr.Ct{Key: expr.CtKeySTATE, Register: reg},
		&expr.Bitwise{SourceRegister: reg, DestRegister: reg, Len: 4, Mask: nativeEndian(expr.CtStateBitNEW), Xor: nativeEndian(0)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: reg, Data: nativeEndian(0)},
	}
}

// fromThisNode matches packets whose source is an address of this node. rtnLocal is
// RTN_LOCAL of linux/rtnetlink.h.
func fromThisNode() rule {
	const rtnLocal = 2
	return rule{
		&expr.Fib{Register: reg, ResultADDRTYPE: true, FlagSADDR: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: reg, Data: nativeEndian(rtnLocal)},
	}
}

// leavingBy matches packets that leave by an interface.
func leavingBy(name string) rule {
	full := make([]byte, unix.IFNAMSIZ)
	copy(full, name)
	return rule{&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: reg}, &expr.Cmp{Op: expr.CmpOpEq, Register: reg, Data: full}}
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

// reject answers with ICMP port unreachable (RFC 792 and RFC 4443), which clients of TCP
// and UDP see as "connection refused".
func (p *program) reject() expr.Any {
	const portUnreachable, portUnreachable6 = 3, 4
	if p.family == proxier.IPv6 {
		return &expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: portUnreachable6}
	}
	return &expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: portUnreachable}
}

func verdict(k expr.VerdictKind) expr.Any { return &expr.Verdict{Kind: k} }
