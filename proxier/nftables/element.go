package nftables

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	nft "github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/nodekit-go/nodekit/proxier"
)

// key is the key of an element. Which fields count depends on the object.
type key struct {
	addr   netip.Addr
	proto  proxier.Protocol
	port   uint16
	number uint32
	source netip.Prefix
}

// slot returns the key of slot i of the list bound to k.
func (k key) slot(i int) key {
	k.number = uint32(i)
	return k
}

// value is what an element maps to: a chain, an endpoint, or nothing.
type value struct {
	to chain
	ep netip.AddrPort
}

// element is one element of an object.
type element struct {
	in    object
	key   key
	value value
}

// String prints the element as nft does, but for the prefix of the generation.
func (e element) String() string {
	var parts []string
	for _, c := range objectSpecs[e.in].key {
		parts = append(parts, e.key.part(c))
	}
	s := e.in.String() + " { " + strings.Join(parts, " . ")
	switch objectSpecs[e.in].class {
	case classMap, verdictMap:
		if e.value.to.kind == dropVerdict {
			s += " : drop"
		} else {
			s += " : goto " + e.value.to.String()
		}
	case endpointMap:
		s += fmt.Sprintf(" : %s . %d", e.value.ep.Addr(), e.value.ep.Port())
	}
	return s + " }"
}

func (k key) part(c component) string {
	switch c {
	case partAddr:
		return k.addr.String()
	case partProto:
		return strings.ToLower(k.proto.String())
	case partPort:
		return strconv.Itoa(int(k.port))
	case partNumber:
		return strconv.FormatUint(uint64(k.number), 10)
	default:
		return k.source.String()
	}
}

// appendPart appends the bytes of one part, padded to whole registers.
func (k key) appendPart(b []byte, c component) []byte {
	switch c {
	case partAddr:
		return append(b, k.addr.AsSlice()...)
	case partProto:
		return append(b, byte(k.proto), 0, 0, 0)
	case partPort:
		return append(binary.BigEndian.AppendUint16(b, k.port), 0, 0)
	case partNumber:
		return binary.NativeEndian.AppendUint32(b, k.number)
	default:
		return append(b, k.source.Addr().AsSlice()...)
	}
}

// maxKey is the length of the longest key: two IPv6 addresses, protocol, port.
const maxKey = 16 + 16 + 4 + 4

func (k key) encode(parts []component) []byte {
	b := make([]byte, 0, maxKey)
	for _, c := range parts {
		b = k.appendPart(b, c)
	}
	return b
}

// encodeEnd returns the last key of the interval that k stands for; nil for an
// object without intervals.
func (k key) encodeEnd(parts []component) []byte {
	if parts[len(parts)-1] != partSource {
		return nil
	}
	k.source = netip.PrefixFrom(lastAddr(k.source), k.source.Bits())
	return k.encode(parts)
}

// lastAddr returns the last address of p.
func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// encodeEndpoint returns address and port as the NAT statement reads them.
func encodeEndpoint(ep netip.AddrPort) []byte {
	b := append(make([]byte, 0, 16+4), ep.Addr().AsSlice()...)
	return append(binary.BigEndian.AppendUint16(b, ep.Port()), 0, 0)
}

// keyElement returns the element with its key alone, as a deletion wants it.
func (e element) keyElement() nft.SetElement {
	parts := objectSpecs[e.in].key
	return nft.SetElement{Key: e.key.encode(parts), KeyEnd: e.key.encodeEnd(parts)}
}

// setElement returns the whole element; chainName turns a chain into its name
// in the kernel.
func (e element) setElement(chainName func(chain) string) nft.SetElement {
	s := e.keyElement()
	switch objectSpecs[e.in].class {
	case endpointMap:
		s.Val = encodeEndpoint(e.value.ep)
	case classMap:
		s.Val = nativeEndian(e.value.to.number())
	case verdictMap:
		if e.value.to.kind == dropVerdict {
			s.VerdictData = &expr.Verdict{Kind: expr.VerdictDrop}
		} else {
			s.VerdictData = &expr.Verdict{Kind: expr.VerdictGoto, Chain: chainName(e.value.to)}
		}
	}
	return s
}
