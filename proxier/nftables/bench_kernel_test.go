//go:build linux

package nftables

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
)

// replaced returns p with its first endpoint replaced, grown p with one more,
// bare p with none. The lists stay sorted.
func replaced(p *proxier.ServicePort, i int) *proxier.ServicePort {
	c := *p
	c.Cluster = slices.Clone(p.Cluster)
	c.Cluster[0].Addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 64, byte(i >> 8), byte(i)}), 8080)
	return &c
}

func grown(p *proxier.ServicePort) *proxier.ServicePort {
	c := *p
	last := netip.AddrPortFrom(netip.MustParseAddr("10.255.0.1"), 8080)
	c.Cluster = append(slices.Clone(p.Cluster), proxier.Endpoint{Addr: last})
	return &c
}

// BenchmarkApply measures one change among many Services, from the call until
// the kernel has committed it.
func BenchmarkApply(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		services := manyServices(n, 2)
		for _, change := range []struct {
			name string
			to   func(i int, p *proxier.ServicePort) proxier.Delta
		}{
			{"endpoint replaced", func(i int, p *proxier.ServicePort) proxier.Delta {
				return proxier.Delta{Update: []*proxier.ServicePort{replaced(p, i)}}
			}},
			{"endpoint added or removed", func(i int, p *proxier.ServicePort) proxier.Delta {
				if i%2 == 0 {
					p = grown(p)
				}
				return proxier.Delta{Update: []*proxier.ServicePort{p}}
			}},
			{"service removed or added", func(i int, p *proxier.ServicePort) proxier.Delta {
				if i%2 == 0 {
					return proxier.Delta{Remove: []proxier.Key{p.Key}}
				}
				return proxier.Delta{Update: []*proxier.ServicePort{p}}
			}},
		} {
			b.Run(fmt.Sprintf("services=%d/%s", n, change.name), func(b *testing.B) {
				backend := newBackend(b, netnstest.New(b), Config{Local: podNet()})
				reset(b, backend, services...)
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					apply(b, backend, change.to(i, services[i/2*7%n]))
				}
			})
		}
	}
}

// BenchmarkReset measures how long the whole state takes: from nothing, and
// with an earlier generation in force.
func BenchmarkReset(b *testing.B) {
	for _, size := range []struct{ services, endpoints int }{{1_000, 10}, {10_000, 2}, {50_000, 2}, {5_000, 50}} {
		services := manyServices(size.services, size.endpoints)
		b.Run(fmt.Sprintf("services=%d/endpoints=%d/again", size.services, size.endpoints), func(b *testing.B) {
			backend := newBackend(b, netnstest.New(b), Config{Local: podNet()})
			reset(b, backend, services...)
			b.ReportAllocs()
			for b.Loop() {
				reset(b, backend, services...)
			}
		})
		b.Run(fmt.Sprintf("services=%d/endpoints=%d/cold", size.services, size.endpoints), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				backend := newBackend(b, netnstest.New(b), Config{Local: podNet()})
				b.StartTimer()
				reset(b, backend, services...)
			}
		})
	}
}
