//go:build linux

package iptables

import (
	"fmt"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
)

// manyPorts returns Services with a number of endpoints each.
func manyPorts(services, endpoints int) []*proxier.ServicePort {
	var out []*proxier.ServicePort
	for i := range services {
		out = append(out, numbered(i, 0, endpoints))
	}
	return out
}

// numbered returns a Service with endpoints that no other round has.
func numbered(i, round, endpoints int) *proxier.ServicePort {
	p := &proxier.ServicePort{
		Key: proxier.Key{
			PortName: proxier.PortName{Namespace: "bench", Name: fmt.Sprintf("service-%05d", i), Port: "http", Protocol: proxier.TCP},
			Family:   proxier.IPv4,
		},
		Frontends:    []proxier.Frontend{{Kind: proxier.ClusterIP, Addr: netip.AddrFrom4([4]byte{10, 97, byte(i >> 8), byte(i)}), Port: 80}},
		HasEndpoints: true,
	}
	for e := range endpoints {
		a := netip.AddrFrom4([4]byte{10, byte(128 + round), byte((i*endpoints + e) >> 8), byte(i*endpoints + e)})
		p.Cluster = append(p.Cluster, proxier.Endpoint{Addr: netip.AddrPortFrom(a, 8080)})
	}
	return p
}

// used returns the CPU time of this process and of the commands that it ran.
func used() (own, children time.Duration) {
	of := func(who int) time.Duration {
		var r syscall.Rusage
		_ = syscall.Getrusage(who, &r)
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	return of(syscall.RUSAGE_SELF), of(syscall.RUSAGE_CHILDREN)
}

func BenchmarkKernel(b *testing.B) {
	for _, v := range []Variant{NFT, Legacy} {
		for _, size := range [][2]int{{1000, 10}, {5000, 2}} {
			b.Run(fmt.Sprintf("%s/%dx%d", v, size[0], size[1]), func(b *testing.B) { benchmark(b, v, size[0], size[1]) })
		}
	}
}

func benchmark(b *testing.B, v Variant, services, endpoints int) {
	b.Helper()
	ns := netnstest.New(b)
	be := backendIn(b, ns.Path(), Config{
		Variant: v, Families: []proxier.Family{proxier.IPv4},
		Local: Local{ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.128.0.0/9")}},
	})
	ports := manyPorts(services, endpoints)
	begin := time.Now()
	if err := be.Reset(b.Context(), &proxier.State{Ports: ports}); err != nil {
		b.Fatal(err)
	}
	b.Logf("first Reset: %v", time.Since(begin))
	begin = time.Now()
	if err := be.Reset(b.Context(), &proxier.State{Ports: ports}); err != nil {
		b.Fatal(err)
	}
	b.Logf("second Reset: %v", time.Since(begin))
	for _, kind := range []struct {
		name  string
		delta func(n int) proxier.Delta
	}{
		{"endpoints replaced", func(n int) proxier.Delta {
			return proxier.Delta{Update: []*proxier.ServicePort{numbered(n%services, 1+n/services%100, endpoints)}}
		}},
		{"Service added", func(n int) proxier.Delta {
			return proxier.Delta{Update: []*proxier.ServicePort{numbered(services+n, 0, endpoints)}}
		}},
		{"Service deleted", func(n int) proxier.Delta {
			return proxier.Delta{Remove: []proxier.Key{numbered(services+n, 0, endpoints).Key}}
		}},
	} {
		b.Run(kind.name, func(b *testing.B) {
			n := 0
			own, children := used()
			for b.Loop() {
				if err := be.Apply(b.Context(), kind.delta(n)); err != nil {
					b.Fatal(err)
				}
				n++
			}
			o, c := used()
			b.ReportMetric(float64((o-own).Microseconds())/1000/float64(n), "ms-own/op")
			b.ReportMetric(float64((c-children).Microseconds())/1000/float64(n), "ms-children/op")
		})
	}
}
