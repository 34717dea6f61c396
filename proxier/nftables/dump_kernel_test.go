//go:build linux

package nftables

import (
	"slices"
	"testing"

	nft "github.com/google/nftables"
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
	out, err := decodeElement(o, g.family, e)
	if err != nil {
		tb.Fatalf("%s: %v", o, err)
	}
	return out.String()
}
