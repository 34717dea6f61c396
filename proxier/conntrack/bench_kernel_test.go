//go:build linux

package conntrack

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
)

// fill adds n UDP flows to the table of ns, and returns how many the kernel took.
func fill(tb testing.TB, ns *netnstest.NS, n int) int {
	tb.Helper()
	k, err := dial(ns.Path())
	if err != nil {
		tb.Fatal(err)
	}
	defer k.close()
	took := 0
	for i := 0; i < n; {
		var part []netlink.Message
		for ; i < n && len(part) < 100; i++ {
			part = append(part, message(0, netlink.Create|netlink.Excl|netlink.Acknowledge, proxier.IPv4, newFlow(tb, i)))
		}
		if _, err := k.tell.SendMessages(part); err != nil {
			tb.Fatal(err)
		}
		for range part {
			if _, err := k.tell.Receive(); err == nil {
				took++
			}
		}
	}
	return took
}

func newFlow(tb testing.TB, i int) []byte {
	tb.Helper()
	client := netip.AddrFrom4([4]byte{10, 1, byte(i >> 16), byte(i >> 8)})
	vip, pod := netip.MustParseAddr("10.96.5.5"), netip.MustParseAddr("10.244.0.1")
	tuple := func(src, dst netip.Addr, sport, dport uint16) func(*netlink.AttributeEncoder) error {
		return func(t *netlink.AttributeEncoder) error {
			t.Nested(attrIP, func(ip *netlink.AttributeEncoder) error {
				ip.Bytes(attrV4Src, src.AsSlice())
				ip.Bytes(attrV4Dst, dst.AsSlice())
				return nil
			})
			t.Nested(attrProto, func(p *netlink.AttributeEncoder) error {
				p.Uint8(attrProtoNum, unix.IPPROTO_UDP)
				p.Uint16(attrSrcPort, sport)
				p.Uint16(attrDstPort, dport)
				return nil
			})
			return nil
		}
	}
	const attrTimeout = 7
	port := uint16(1024 + i&255)
	ae := netlink.NewAttributeEncoder()
	ae.ByteOrder = binary.BigEndian
	ae.Nested(attrOrig, tuple(client, vip, port, 53))
	ae.Nested(attrReply, tuple(pod, client, 53, port))
	ae.Uint32(attrTimeout, 600)
	data, err := ae.Encode()
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// BenchmarkSearch measures a search for the flows of one frontend in a large table of
// others, and for all of them.
func BenchmarkSearch(b *testing.B) {
	ns := netnstest.New(b)
	flows := fill(b, ns, 200_000)
	c, err := New(Config{NetNS: ns.Path()})
	if err != nil {
		b.Fatal(err)
	}
	for name, at := range map[string]map[frontend]bool{
		"one frontend": {{addr: netip.MustParseAddr("10.96.0.10"), port: 53}: true},
		"all":          {},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			defer func() { b.ReportMetric(float64(flows), "flows") }()
			for b.Loop() {
				if _, _, err := c.search(b.Context(), proxier.IPv4, at); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
