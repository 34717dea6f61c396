package conntrack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// sizeofNfgenmsg is the length of struct nfgenmsg of linux/netfilter/nfnetlink.h.
const sizeofNfgenmsg = 4

// parseFlow reads an entry of the table. It returns false for what is no UDP flow.
// Attributes that it does not know are passed over.
func parseFlow(data []byte) (flow, bool, error) {
	if len(data) < sizeofNfgenmsg {
		return flow{}, false, errors.New("the kernel's answer is too short")
	}
	ad, err := netlink.NewAttributeDecoder(data[sizeofNfgenmsg:])
	if err != nil {
		return flow{}, false, err
	}
	var f flow
	var orig, reply tuple
	for ad.Next() {
		switch ad.Type() {
		case attrOrig:
			f.orig = bytes.Clone(ad.Bytes())
			ad.Nested(orig.decode)
		case attrReply:
			ad.Nested(reply.decode)
		case attrID:
			f.id = bytes.Clone(ad.Bytes())
		case attrZone:
			f.zone = bytes.Clone(ad.Bytes())
		}
	}
	if err := ad.Err(); err != nil {
		return flow{}, false, err
	}
	f.dst = netip.AddrPortFrom(orig.dst, orig.dstPort)
	f.from = netip.AddrPortFrom(reply.src, reply.srcPort)
	return f, orig.protocol == unix.IPPROTO_UDP && f.dst.IsValid() && f.from.IsValid(), nil
}

// tuple is one direction of a flow.
type tuple struct {
	src, dst         netip.Addr
	srcPort, dstPort uint16
	protocol         uint8
}

func (t *tuple) decode(ad *netlink.AttributeDecoder) error {
	for ad.Next() {
		switch ad.Type() {
		case attrIP:
			ad.Nested(t.addresses)
		case attrProto:
			ad.Nested(t.ports)
		}
	}
	return ad.Err()
}

func (t *tuple) addresses(ad *netlink.AttributeDecoder) error {
	for ad.Next() {
		a, ok := netip.AddrFromSlice(ad.Bytes())
		switch ad.Type() {
		case attrV4Src, attrV6Src:
			t.src = a
		case attrV4Dst, attrV6Dst:
			t.dst = a
		default:
			ok = true
		}
		if !ok {
			return errors.New("the kernel's answer has an address of an odd length")
		}
	}
	return ad.Err()
}

func (t *tuple) ports(ad *netlink.AttributeDecoder) error {
	ad.ByteOrder = binary.BigEndian
	for ad.Next() {
		switch ad.Type() {
		case attrProtoNum:
			t.protocol = ad.Uint8()
		case attrSrcPort:
			t.srcPort = ad.Uint16()
		case attrDstPort:
			t.dstPort = ad.Uint16()
		}
	}
	return ad.Err()
}
