package nftables

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/nodekit-go/nodekit/proxier"
)

// endpointsAt returns endpoints that differ in their port.
func endpointsAt(ports []uint16) []proxier.Endpoint {
	var out []proxier.Endpoint
	for _, p := range ports {
		out = append(out, proxier.Endpoint{Addr: netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), p)})
	}
	return out
}

func portsOf(in []proxier.Endpoint) []uint16 {
	var out []uint16
	for _, e := range in {
		out = append(out, e.Addr.Port())
	}
	return out
}

func TestPlace(t *testing.T) {
	for _, tt := range []struct {
		name             string
		old, want, slots []uint16
	}{
		{"from nothing", nil, []uint16{1, 2, 3}, []uint16{1, 2, 3}},
		{"to nothing", []uint16{1, 2}, nil, nil},
		{"same", []uint16{2, 1}, []uint16{2, 1}, []uint16{2, 1}},
		{"other order keeps the slots", []uint16{2, 1}, []uint16{1, 2}, []uint16{2, 1}},
		{"newcomer goes to the end", []uint16{2, 3}, []uint16{1, 2, 3}, []uint16{2, 3, 1}},
		{"newcomer takes a freed slot", []uint16{1, 2, 3}, []uint16{2, 3, 4}, []uint16{4, 2, 3}},
		{"last survivor takes a freed slot", []uint16{1, 2, 3, 4}, []uint16{1, 3, 4}, []uint16{1, 4, 3}},
		{"last goes", []uint16{1, 2, 3}, []uint16{1, 2}, []uint16{1, 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.slots, portsOf(place(endpointsAt(tt.old), endpointsAt(tt.want)))); diff != "" {
				t.Errorf("slots (-want +got):\n%s", diff)
			}
		})
	}
}

// distinct draws up to ten ports without repetition.
func distinct(t *rapid.T, label string) []uint16 {
	return rapid.SliceOfNDistinct(rapid.Uint16Range(1, 15), 0, 10, rapid.ID[uint16]).Draw(t, label)
}

func TestPlaceKeepsAllAndMovesFew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old, want := distinct(t, "old"), distinct(t, "want")
		got := portsOf(place(endpointsAt(old), endpointsAt(want)))
		sorted := func(s []uint16) []uint16 { s = slices.Clone(s); slices.Sort(s); return s }
		if !slices.Equal(sorted(got), sorted(want)) {
			t.Fatalf("place(%v, %v) = %v, not the endpoints of want", old, want, got)
		}
		for i, p := range got {
			if i < len(old) && old[i] != p && slices.Contains(want, old[i]) {
				t.Fatalf("place(%v, %v) = %v: slot %d need not have changed", old, want, got, i)
			}
		}
	})
}

func TestPinnedSlotsStayWithTheirEndpoints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := pinList{number: 1}
		for step := range 5 {
			want := distinct(t, "want")
			next := l.next(endpointsAt(want))
			var live []uint16
			for i, a := range next.slots {
				if !a.IsValid() {
					continue
				}
				live = append(live, a.Port())
				if was := slices.Index(l.slots, a); was >= 0 && was != i && was < 2*len(want) {
					t.Fatalf("step %d: %v moved from slot %d to %d of %v though there was room", step, a, was, i, next.slots)
				}
			}
			slices.Sort(live)
			slices.Sort(want)
			if !slices.Equal(live, want) {
				t.Fatalf("step %d: slots hold %v, want %v", step, live, want)
			}
			if len(next.slots) > 2*len(want) {
				t.Fatalf("step %d: %d slots for %d endpoints", step, len(next.slots), len(want))
			}
			l = next
		}
	})
}
