//go:build linux

package nftables

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
)

// probing asks the virtual IP of webAnd over TCP and UDP until the function it returns
// is called, which fails the test for each loss.
func probing(t *testing.T, ns *netnstest.NS) func() {
	t.Helper()
	return netnstest.Probes{From: ns, Networks: []string{"tcp", "udp", "tcp"}, Virtual: "10.96.0.10:80", Direct: "10.244.1.11:8080"}.Start(t)
}

// webAnd returns a Service that is probed, over TCP and UDP, with those.
func webAnd(more ...*proxier.ServicePort) []*proxier.ServicePort {
	const vip = "10.96.0.10:80"
	out := append(slices.Clone(more),
		service("web", proxier.TCP, vip, on("10.244.1.11:8080"), on("10.244.1.12:8080")),
		service("web", proxier.UDP, vip, on("10.244.1.11:8080"), on("10.244.1.12:8080")))
	slices.SortFunc(out, func(a, b *proxier.ServicePort) int { return a.Key.Compare(b.Key) })
	return out
}

func TestKernelProbesSurviveARestart(t *testing.T) {
	w := newWorld(t)
	serveBoth(t, w)
	many := manyServices(2000, 2)
	first := newBackend(t, w.node, Config{Local: podNet()})
	reset(t, first, webAnd(many...)...)
	done := probing(t, w.client)
	for range 5 {
		next := newBackend(t, w.node, Config{Local: podNet()})
		reset(t, next, webAnd(many...)...)
	}
	done()
}

// Endpoints of the probed Service come and go, too; those that answer stay.
func TestKernelProbesSurviveChurn(t *testing.T) {
	w := newWorld(t)
	serveBoth(t, w)
	b := newBackend(t, w.node, Config{Local: podNet()})
	many := manyServices(1000, 2)
	reset(t, b, webAnd(many...)...)
	done := probing(t, w.client)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 1000 {
		p := many[r.IntN(len(many))]
		switch i % 5 {
		case 0:
			remove(t, b, p)
		case 1:
			update(t, b, p)
		case 2:
			update(t, b, grown(p))
		case 3:
			update(t, b, replaced(p, i))
		case 4:
			web := webAnd()
			for _, p := range web {
				p.Cluster = p.Cluster[:1+r.IntN(2)]
			}
			update(t, b, web...)
		}
	}
	done()
}

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
