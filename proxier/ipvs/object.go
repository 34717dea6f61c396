package ipvs

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	nft "github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/proxier"
)

// object is a set or map of the table.
type object uint8

const (
	// serviceIPs are the addresses on the device: an unknown port of one is refused.
	serviceIPs object = iota
	// internal are cluster IPs; external are external addresses, and atNode addresses of the
	// node with a node port or as an external address. Connections to these are masqueraded.
	internal
	external
	atNode
	// externalLocal are external addresses with policy Local, each with the mark of the
	// virtual server for connections from this node and its pods.
	externalLocal
	// localOnly are those without a mark: whoever connects is sent to local endpoints, with
	// the source that he has.
	localOnly
	// refused and dropped are those that nobody may serve.
	refused
	dropped
	// firewalled are addresses with source ranges, and sources who may use which.
	firewalled
	sources
	// healthPorts are where the node tells load balancers whether it has endpoints: at
	// addresses of Services, too.
	healthPorts
	// hairpins are the connections of a pod to itself.
	hairpins
	// owned are virtual servers at addresses that the device does not have. No rule reads it:
	// by it a later process knows which are the Backend's. An element comes before its
	// virtual server, and stays until that is gone.
	owned
	objectCount
)

// part is one part of the concatenation that makes a key.
type part uint8

const (
	partAddr part = iota
	partProto
	partPort
	partSource // a prefix
)

type objectSpec struct {
	name  string
	parts []part
}

func specOf(o object) objectSpec {
	frontend := []part{partAddr, partProto, partPort}
	switch o {
	case serviceIPs:
		return objectSpec{"service-ips", []part{partAddr}}
	case internal:
		return objectSpec{"cluster-ips", frontend}
	case external:
		return objectSpec{"external", frontend}
	case atNode:
		return objectSpec{"at-node", frontend}
	case externalLocal:
		return objectSpec{"external-local", frontend}
	case localOnly:
		return objectSpec{"local-only", frontend}
	case refused:
		return objectSpec{"refused", frontend}
	case dropped:
		return objectSpec{"dropped", frontend}
	case firewalled:
		return objectSpec{"firewalled", frontend}
	case sources:
		return objectSpec{"sources", append(frontend, partSource)}
	case owned:
		return objectSpec{"owned", frontend}
	case healthPorts:
		return objectSpec{"health-ports", []part{partProto, partPort}}
	default:
		return objectSpec{"hairpins", []part{partAddr, partAddr, partProto, partPort}}
	}
}

func (o object) String() string { return specOf(o).name }

// element is one element of an object. Which fields count depends on the object.
type element struct {
	in     object
	family proxier.Family
	at     netip.AddrPort
	proto  proxier.Protocol
	source netip.Prefix
	mark   uint32 // the value, in externalLocal
}

// String prints the element as nft does.
func (e element) String() string {
	var parts []string
	for _, p := range specOf(e.in).parts {
		switch p {
		case partAddr:
			parts = append(parts, e.at.Addr().String())
		case partProto:
			parts = append(parts, strings.ToLower(e.proto.String()))
		case partPort:
			parts = append(parts, fmt.Sprint(e.at.Port()))
		case partSource:
			parts = append(parts, e.source.String())
		}
	}
	s := e.in.String() + " { " + strings.Join(parts, " . ")
	if e.in == externalLocal {
		s += fmt.Sprintf(" : %#x", e.mark)
	}
	return s + " }"
}

// set returns the element for the kernel; without its value it is what a deletion wants.
func (e element) set(withValue bool) nft.SetElement {
	s := nft.SetElement{Key: e.encode(false)}
	if e.in == sources {
		s.KeyEnd = e.encode(true)
	}
	if e.in == externalLocal && withValue {
		s.Val = binary.NativeEndian.AppendUint32(nil, e.mark)
	}
	return s
}

// encode returns the key, each part padded to whole registers of 32 bits, or the last key
// of an interval.
func (e element) encode(last bool) []byte {
	b := make([]byte, 0, 2*16+2*4)
	for _, p := range specOf(e.in).parts {
		switch p {
		case partAddr:
			b = append(b, e.at.Addr().AsSlice()...)
		case partProto:
			b = append(b, byte(e.proto), 0, 0, 0)
		case partPort:
			b = append(binary.BigEndian.AppendUint16(b, e.at.Port()), 0, 0)
		case partSource:
			a := e.source.Addr()
			if last {
				a = lastAddr(e.source)
			}
			b = append(b, a.AsSlice()...)
		}
	}
	return b
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

// decodeElement is the inverse of element.set.
func decodeElement(in object, f proxier.Family, s nft.SetElement) (element, error) {
	e := element{in: in, family: f}
	r := reader{rest: s.Key, size: 4}
	if f == proxier.IPv6 {
		r.size = 16
	}
	var addr netip.Addr
	var port uint16
	for _, p := range specOf(in).parts {
		switch p {
		case partAddr:
			addr = r.addr()
		case partProto:
			e.proto = proxier.Protocol(r.take(4)[0])
		case partPort:
			port = binary.BigEndian.Uint16(r.take(4))
		case partSource:
			first := r.addr()
			end := reader{rest: s.KeyEnd[max(0, len(s.KeyEnd)-r.size):], size: r.size}
			e.source = between(first, end.addr())
			r.short = r.short || end.short
		}
	}
	e.at = netip.AddrPortFrom(addr, port)
	if in == externalLocal {
		value := reader{rest: s.Val}
		e.mark = binary.NativeEndian.Uint32(value.take(4))
		r.short = r.short || value.short
	}
	if r.short {
		return element{}, fmt.Errorf("an element of %s has %d bytes of key and %d of value", in, len(s.Key), len(s.Val))
	}
	return e, nil
}

// decodeElements reads an answer to a request for the elements of an object.
func decodeElements(in object, f proxier.Family, data []byte) ([]element, error) {
	if len(data) < sizeofNfgenmsg {
		return nil, fmt.Errorf("an answer has %d bytes", len(data))
	}
	d, err := netlink.NewAttributeDecoder(data[sizeofNfgenmsg:])
	if err != nil {
		return nil, err
	}
	var out []element
	for d.Next() {
		if d.Type() != unix.NFTA_SET_ELEM_LIST_ELEMENTS {
			continue
		}
		d.Nested(func(list *netlink.AttributeDecoder) error {
			for list.Next() {
				var s nft.SetElement
				list.Nested(func(d *netlink.AttributeDecoder) error { return decodeSetElement(d, &s) })
				if list.Err() != nil {
					return nil // which the caller is told
				}
				e, err := decodeElement(in, f, s)
				if err != nil {
					return err
				}
				out = append(out, e)
			}
			return nil
		})
	}
	return out, d.Err()
}

// setElemKeyEnd is NFTA_SET_ELEM_KEY_END of linux/netfilter/nf_tables.h.
const setElemKeyEnd = 10

func decodeSetElement(d *netlink.AttributeDecoder, s *nft.SetElement) error {
	for d.Next() {
		var into *[]byte
		switch d.Type() {
		case unix.NFTA_SET_ELEM_KEY:
			into = &s.Key
		case setElemKeyEnd:
			into = &s.KeyEnd
		case unix.NFTA_SET_ELEM_DATA:
			into = &s.Val
		default:
			continue
		}
		d.Nested(func(d *netlink.AttributeDecoder) error {
			for d.Next() {
				if d.Type() == unix.NFTA_DATA_VALUE {
					*into = d.Bytes()
				}
			}
			return nil
		})
	}
	return nil
}

// between returns the prefix whose first and last addresses are given.
func between(first, last netip.Addr) netip.Prefix {
	for bits := first.BitLen(); bits > 0; bits-- {
		if p := netip.PrefixFrom(first, bits); lastAddr(p) == last {
			return p
		}
	}
	return netip.PrefixFrom(first, 0)
}

// reader takes parts from a key. It returns zeros when there is too little.
type reader struct {
	rest  []byte
	size  int // of an address
	short bool
}

func (r *reader) take(n int) []byte {
	if len(r.rest) < n {
		r.short = true
		return make([]byte, n)
	}
	head := r.rest[:n]
	r.rest = r.rest[n:]
	return head
}

func (r *reader) addr() netip.Addr {
	a, _ := netip.AddrFromSlice(r.take(r.size))
	return a
}
