//go:build linux

package nftables

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
)

// An hour of churn in a few seconds: what is in the kernel and in memory afterwards is
// what was there before.
func TestKernelChurnLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	b := newBackend(t, netnstest.New(t), Config{Local: podNet()})
	many := manyServices(50, 3)
	sticky50 := make([]*proxier.ServicePort, 0, 10)
	for i := range 10 {
		sticky50 = append(sticky50, service(fmt.Sprintf("sticky-%d", i), proxier.TCP, fmt.Sprintf("10.111.200.%d:80", i+1),
			far("10.244.2.15:8080"), sticky(time.Hour)))
	}
	all := slices.Concat(many, sticky50)
	reset(t, b, all...)
	sizes := func() [4]int {
		objects := 0
		for _, g := range b.generations {
			objects += len(g.chains)
		}
		return [4]int{len(dumpAll(t, b)), objects, len(b.entries), len(b.refs)}
	}
	round := func() {
		for i, p := range all {
			update(t, b, grown(p))
			update(t, b, replaced(p, i))
			remove(t, b, p)
			update(t, b, p)
		}
	}
	round() // brings the chains that churn needs
	before := sizes()
	for range 10 {
		round()
	}
	if after := sizes(); after != before {
		t.Errorf("elements, chains, entries, references: %v before, %v after", before, after)
	}
	if n := len(b.numbers.free) + len(b.numbers.released); n > 64 {
		t.Errorf("%d numbers of lists are free", n)
	}
}
