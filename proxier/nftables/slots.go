package nftables

import (
	"net/netip"

	"github.com/nodekit-go/nodekit/proxier"
)

// place puts the endpoints of want into slots 0…len(want)-1 so that as few slots
// as possible differ from old: an endpoint that stays keeps its slot unless the
// slot is beyond the new end, and a freed slot goes to a newcomer or to the
// last survivor. The result may be want itself; neither slice is changed.
func place(old, want []proxier.Endpoint) []proxier.Endpoint {
	if len(old) == 0 || sameAddrs(old, want) {
		return want
	}
	waiting := make(map[netip.AddrPort]int, len(want))
	for i, e := range want {
		waiting[e.Addr] = i
	}
	out := make([]proxier.Endpoint, len(want))
	placed := make([]bool, len(want))
	for i, e := range old {
		if at, ok := waiting[e.Addr]; ok && i < len(out) {
			out[i], placed[i] = want[at], true
			delete(waiting, e.Addr)
		}
	}
	free := 0
	for at, e := range want {
		if left, ok := waiting[e.Addr]; !ok || left != at {
			continue
		}
		for placed[free] {
			free++
		}
		out[free], placed[free] = e, true
	}
	return out
}

func sameAddrs(a, b []proxier.Endpoint) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Addr != b[i].Addr {
			return false
		}
	}
	return true
}
