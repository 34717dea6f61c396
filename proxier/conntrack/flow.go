package conntrack

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"
)

// sizeofNfgenmsg is the length of struct nfgenmsg of linux/netfilter/nfnetlink.h.
const sizeofNfgenmsg = 4

// errOddAnswer says that the kernel's answer is not of the shape that it has.
var errOddAnswer = errors.New("the kernel's answer cannot be read")

// parseFlow reads an entry of the table. It returns false for what is no UDP flow.
// Attributes that it does not know are passed over. The result points into data: a
// table may have a million entries, and few of them matter.
func parseFlow(data []byte) (flow, bool, error) {
	if len(data) < sizeofNfgenmsg {
		return flow{}, false, errOddAnswer
	}
	var f flow
	var orig, reply tuple
	a := attributes{rest: data[sizeofNfgenmsg:]}
	for a.next() {
		switch a.kind {
		case attrOrig:
			f.orig = a.value
			a.check(orig.decode(a.value))
		case attrReply:
			a.check(reply.decode(a.value))
		case attrID:
			f.id = a.value
		case attrZone:
			f.zone = a.value
		}
	}
	if a.err != nil {
		return flow{}, false, a.err
	}
	f.dst = netip.AddrPortFrom(orig.dst, orig.dstPort)
	f.from = netip.AddrPortFrom(reply.src, reply.srcPort)
	return f, orig.protocol == unix.IPPROTO_UDP && f.dst.IsValid() && f.from.IsValid(), nil
}

// attributes reads netlink attributes one after the other, without copies.
type attributes struct {
	rest  []byte
	kind  uint16
	value []byte
	err   error
}

// next returns false at the end and after an error.
func (a *attributes) next() bool {
	const header, kindMask = 4, 0x3fff // without the bits for nesting and byte order
	if a.err != nil || len(a.rest) == 0 {
		return false
	}
	if len(a.rest) < header {
		a.err = errOddAnswer
		return false
	}
	n := int(binary.NativeEndian.Uint16(a.rest))
	if n < header || n > len(a.rest) {
		a.err = errOddAnswer
		return false
	}
	a.kind = binary.NativeEndian.Uint16(a.rest[2:]) & kindMask
	a.value = a.rest[header:n]
	a.rest = a.rest[min((n+3)&^3, len(a.rest)):]
	return true
}

func (a *attributes) check(err error) {
	if a.err == nil {
		a.err = err
	}
}

// tuple is one direction of a flow.
type tuple struct {
	src, dst         netip.Addr
	srcPort, dstPort uint16
	protocol         uint8
}

func (t *tuple) decode(data []byte) error {
	a := attributes{rest: data}
	for a.next() {
		switch a.kind {
		case attrIP:
			a.check(t.addresses(a.value))
		case attrProto:
			a.check(t.ports(a.value))
		}
	}
	return a.err
}

func (t *tuple) addresses(data []byte) error {
	a := attributes{rest: data}
	for a.next() {
		addr, ok := netip.AddrFromSlice(a.value)
		switch a.kind {
		case attrV4Src, attrV6Src:
			t.src = addr
		case attrV4Dst, attrV6Dst:
			t.dst = addr
		default:
			ok = true
		}
		if !ok {
			return errOddAnswer
		}
	}
	return a.err
}

func (t *tuple) ports(data []byte) error {
	a := attributes{rest: data}
	for a.next() {
		switch {
		case a.kind == attrProtoNum && len(a.value) == 1:
			t.protocol = a.value[0]
		case a.kind == attrSrcPort && len(a.value) == 2:
			t.srcPort = binary.BigEndian.Uint16(a.value)
		case a.kind == attrDstPort && len(a.value) == 2:
			t.dstPort = binary.BigEndian.Uint16(a.value)
		}
	}
	return a.err
}
