package conntrack

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/proxier"
)

// Message types and attributes of linux/netfilter/nfnetlink_conntrack.h.
const (
	msgGet    = 1
	msgDelete = 2

	attrOrig      = 1
	attrReply     = 2
	attrID        = 12
	attrZone      = 18
	attrFilter    = 25
	attrOrigFlags = 1

	attrIP    = 1
	attrProto = 2

	attrV4Src = 1
	attrV4Dst = 2
	attrV6Src = 3
	attrV6Dst = 4

	attrProtoNum = 1
	attrSrcPort  = 2
	attrDstPort  = 3
)

// Which parts of a tuple a dump is filtered by. The kernel keeps the numbers in
// net/netfilter/nf_internals.h; libnetfilter_conntrack has the same.
const (
	filterIPDst    = 1 << 1
	filterProtoNum = 1 << 3
	filterDstPort  = 1 << 5
)

// flow is one UDP flow.
type flow struct {
	// dst is where the client sends, from where the answers come.
	dst, from netip.AddrPort
	// orig, id and zone name the flow to the kernel, as it named it to us.
	orig, id, zone []byte
}

// kernel asks the kernel on one socket and tells it on another, so that flows are
// deleted while a dump goes on.
type kernel struct {
	ask, tell *netlink.Conn
	path      string
}

// readBuffer takes bursts of a dump.
const readBuffer = 1 << 20

func dial(path string) (*kernel, error) {
	k := &kernel{path: path}
	for _, to := range []**netlink.Conn{&k.ask, &k.tell} {
		c, err := dialIn(path, unix.NETLINK_NETFILTER)
		if err != nil {
			k.close()
			return nil, fmt.Errorf("connect to connection tracking over netlink: %w", err)
		}
		_ = c.SetReadBuffer(readBuffer) // more is better, less works
		*to = c
	}
	return k, nil
}

func dialIn(path string, protocol int) (*netlink.Conn, error) {
	cfg := &netlink.Config{}
	if path != "" {
		ns, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("open network namespace: %w", err)
		}
		defer ns.Close()
		cfg.NetNS = int(ns.Fd())
	}
	return netlink.Dial(protocol, cfg)
}

func (k *kernel) close() {
	for _, c := range []*netlink.Conn{k.ask, k.tell} {
		if c != nil {
			_ = c.Close()
		}
	}
}

func familyNumber(f proxier.Family) byte {
	if f == proxier.IPv6 {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// message returns a request with struct nfgenmsg before the attributes.
func message(typ uint16, flags netlink.HeaderFlags, f proxier.Family, attrs []byte) netlink.Message {
	return netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(unix.NFNL_SUBSYS_CTNETLINK<<8 | typ), Flags: netlink.Request | flags},
		Data:   append([]byte{familyNumber(f), unix.NFNETLINK_V0, 0, 0}, attrs...),
	}
}

// flows calls each for all UDP flows that filter admits, and maybe others to its port,
// part by part, and returns how many the kernel showed. The zero frontend admits all.
func (k *kernel) flows(ctx context.Context, f proxier.Family, filter frontend, each func([]flow) error) (int, error) {
	attrs, err := filterAttrs(f, filter)
	if err != nil {
		return 0, err
	}
	stop := context.AfterFunc(ctx, func() { _ = k.ask.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := k.ask.Send(message(msgGet, netlink.Dump, f, attrs)); err != nil {
		return 0, err
	}
	seen := 0
	part := make([]flow, 0, partSize)
	for m, err := range k.ask.ReceiveIter() {
		if err != nil {
			return seen, errors.Join(ctx.Err(), err)
		}
		fl, ok, err := parseFlow(m.Data)
		if err != nil {
			return seen, err
		}
		if !ok {
			continue
		}
		seen++
		if part = append(part, fl); len(part) == partSize {
			if err := each(part); err != nil {
				return seen, err
			}
			part = part[:0]
		}
	}
	return seen, each(part)
}

// partSize is how many flows are kept at once.
const partSize = 512

// filterAttrs returns what makes the kernel show the flows of filter, and of IPv6 all
// those to its port: the kernel compares IPv6 addresses the wrong way round and passes
// over those that are equal (ctnetlink_filter_match_tuple in
// net/netfilter/nf_conntrack_netlink.c, from the first filter in Linux 5.8 to 6.18).
func filterAttrs(f proxier.Family, filter frontend) ([]byte, error) {
	flags := uint32(filterProtoNum)
	ae := netlink.NewAttributeEncoder()
	ae.ByteOrder = binary.BigEndian
	ae.Nested(attrOrig, func(tuple *netlink.AttributeEncoder) error {
		if filter.addr.IsValid() && f == proxier.IPv4 {
			flags |= filterIPDst
			tuple.Nested(attrIP, func(ip *netlink.AttributeEncoder) error {
				ip.Bytes(attrV4Dst, filter.addr.AsSlice())
				return nil
			})
		}
		tuple.Nested(attrProto, func(proto *netlink.AttributeEncoder) error {
			proto.Uint8(attrProtoNum, unix.IPPROTO_UDP)
			if filter.port != 0 {
				flags |= filterDstPort
				proto.Uint16(attrDstPort, filter.port)
			}
			return nil
		})
		return nil
	})
	ae.Nested(attrFilter, func(n *netlink.AttributeEncoder) error {
		n.ByteOrder = binary.NativeEndian
		n.Uint32(attrOrigFlags, flags)
		return nil
	})
	return ae.Encode()
}

// forget deletes flows and returns how many are gone. One that is gone already is no
// error, and one that cannot be deleted keeps no other: the first such error is returned.
func (k *kernel) forget(ctx context.Context, f proxier.Family, flows []flow) (gone int, first error) {
	// Few enough that the acknowledgements fit into the socket's buffer.
	for part := range slices.Chunk(flows, 64) {
		if err := ctx.Err(); err != nil {
			return gone, err
		}
		messages := make([]netlink.Message, 0, len(part))
		for _, fl := range part {
			attrs := []netlink.Attribute{{Type: netlink.Nested | attrOrig, Data: fl.orig}}
			if fl.id != nil {
				attrs = append(attrs, netlink.Attribute{Type: attrID, Data: fl.id})
			}
			if fl.zone != nil {
				attrs = append(attrs, netlink.Attribute{Type: attrZone, Data: fl.zone})
			}
			data, err := netlink.MarshalAttributes(attrs)
			if err != nil {
				return gone, err
			}
			messages = append(messages, message(msgDelete, netlink.Acknowledge, f, data))
		}
		for _, m := range messages {
			if _, err := k.tell.Execute(m); err == nil || errors.Is(err, unix.ENOENT) {
				gone++
			} else if first == nil {
				first = fmt.Errorf("delete a flow: %w", err)
			}
		}
	}
	return gone, first
}
