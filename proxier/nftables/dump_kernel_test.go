//go:build linux

package nftables

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	nft "github.com/google/nftables"

	"github.com/nodekit-go/nodekit/proxier"
)

// elementsOf returns what the kernel has in an object of the generation in
// force, over both families, sorted.
func elementsOf(tb testing.TB, b *Backend, o object) []string {
	tb.Helper()
	var out []string
	for _, f := range b.cfg.Families {
		g := b.generations[f]
		elements, err := b.conn.nft.GetSetElements(g.sets[o])
		if err != nil {
			tb.Fatalf("list %s: %v", o, err)
		}
		for _, e := range elements {
			out = append(out, decode(tb, g, o, e))
		}
	}
	slices.Sort(out)
	return out
}

// dumpAll returns the elements of all objects.
func dumpAll(tb testing.TB, b *Backend) []string {
	tb.Helper()
	var out []string
	for o := range classes { // which outlive what led to them
		out = append(out, elementsOf(tb, b, o)...)
	}
	return out
}

// decode prints an element of the kernel as element.String prints ours.
func decode(tb testing.TB, g *generation, o object, e nft.SetElement) string {
	tb.Helper()
	size := 4
	if g.family == proxier.IPv6 {
		size = 16
	}
	var parts []string
	rest := e.Key
	take := func(n int) []byte {
		head := rest[:n]
		rest = rest[n:]
		return head
	}
	for _, part := range objectSpecs[o].key {
		switch part {
		case partAddr:
			a, _ := netip.AddrFromSlice(take(size))
			parts = append(parts, a.String())
		case partProto:
			parts = append(parts, strings.ToLower(proxier.Protocol(take(4)[0]).String()))
		case partPort:
			parts = append(parts, fmt.Sprint(binary.BigEndian.Uint16(take(4))))
		case partNumber:
			parts = append(parts, fmt.Sprint(binary.NativeEndian.Uint32(take(4))))
		case partSource:
			a, _ := netip.AddrFromSlice(take(size))
			last, _ := netip.AddrFromSlice(e.KeyEnd[len(e.KeyEnd)-size:])
			bits := size * 8
			for bits > 0 && lastAddr(netip.PrefixFrom(a, bits)) != last {
				bits--
			}
			parts = append(parts, netip.PrefixFrom(a, bits).String())
		}
	}
	s := o.String() + " { " + strings.Join(parts, " . ")
	switch objectSpecs[o].class {
	case endpointMap:
		a, _ := netip.AddrFromSlice(e.Val[:size])
		s += fmt.Sprintf(" : %s . %d", a, binary.BigEndian.Uint16(e.Val[size:]))
	case classMap:
		number := binary.NativeEndian.Uint32(e.Val)
		c := chain{kind: chainKind(number >> 24), space: space(number >> 23 & 1), n: number & (1<<23 - 1)}
		if c.kind == dropVerdict {
			s += " : drop"
		} else {
			s += " : goto " + c.String()
		}
	case verdictMap:
		// The library decodes a verdict to nested attributes: four bytes of header and
		// the code, then the chain with its own header.
		name := strings.Trim(string(e.Val[min(len(e.Val), 12):]), "\x00")
		if name == "" {
			s += " : drop"
		} else {
			_, name, _ = strings.Cut(name, "/")
			s += " : goto " + name
		}
	}
	return s + " }"
}
