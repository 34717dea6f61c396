package ipvs

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/nodekit-go/nodekit/proxier"
)

// drawPort draws a ServicePort that shares addresses with others, but no front with a
// Service: a node port may be the port of an external address of the node.
func drawPort(t *rapid.T, n int) *proxier.ServicePort {
	p := &proxier.ServicePort{Key: proxier.Key{
		PortName: proxier.PortName{
			Namespace: "ns", Name: fmt.Sprint(n),
			Protocol: rapid.SampledFrom([]proxier.Protocol{proxier.TCP, proxier.UDP}).Draw(t, "protocol"),
		},
		Family: rapid.SampledFrom([]proxier.Family{proxier.IPv4, proxier.IPv6}).Draw(t, "family"),
	}}
	six := p.Key.Family == proxier.IPv6
	addr := func(v4, v6 string) netip.Addr {
		if six {
			return netip.MustParseAddr(v6)
		}
		return netip.MustParseAddr(v4)
	}
	add := func(kind proxier.FrontendKind, a netip.Addr, port int) {
		if rapid.Bool().Draw(t, kind.String()) {
			p.Frontends = append(p.Frontends, proxier.Frontend{Kind: kind, Addr: a, Port: uint16(port)})
		}
	}
	add(proxier.ClusterIP, addr(fmt.Sprintf("10.96.0.%d", 1+n/2), fmt.Sprintf("fd00:96::%d", 1+n/2)), 80+n)
	add(proxier.NodePort, netip.Addr{}, 30000+n)
	add(proxier.ExternalIP, addr("10.0.0.2", "fd00::2"), 30000+(n+1)%4)
	add(proxier.LoadBalancer, addr("192.0.2.1", "2001:db8::1"), 80+n)
	for i := range rapid.IntRange(0, 3).Draw(t, "endpoints") {
		e := proxier.Endpoint{
			Addr:  netip.AddrPortFrom(addr(fmt.Sprintf("10.244.0.%d", 1+i), fmt.Sprintf("fd00:244::%d", 1+i)), 8080),
			Local: rapid.Bool().Draw(t, "local"),
		}
		p.Cluster = append(p.Cluster, e)
		if e.Local {
			p.Local = append(p.Local, e)
		}
	}
	p.HasEndpoints = len(p.Cluster) > 0
	p.ExternalLocal, p.InternalLocal = rapid.Bool().Draw(t, "external"), rapid.Bool().Draw(t, "internal")
	if rapid.Bool().Draw(t, "affinity") {
		p.Affinity = time.Duration(rapid.IntRange(1, 3).Draw(t, "timeout")) * time.Hour
	}
	if rapid.Bool().Draw(t, "ranges") {
		p.SourceRanges = []netip.Prefix{netip.PrefixFrom(addr("10.0.0.0", "fd00::"), 8)}
	}
	p.HealthCheckNodePort = rapid.SampledFrom([]uint16{0, 31000, 31001}).Draw(t, "health port")
	p.Balance.Scheduler = rapid.SampledFrom([]string{"", "lc", "sh", "dh", "none"}).Draw(t, "scheduler")
	p.Balance.LocalWeight = rapid.SampledFrom([]uint16{0, 5}).Draw(t, "weight")
	return p
}

// stand is what a kernel has, but for what drains and for the numbers of marks.
func stand(t *rapid.T, k *fakeKernel, b *Backend) []string {
	found, err := b.surveyLocked(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lines, err := b.presentLocked(t.Context(), found)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range k.device.state.bound {
		lines = append(lines, "bound "+a.String())
	}
	slices.Sort(lines)
	return lines
}

// Whatever Deltas and restarts came before, the kernel has what a first Reset would give it.
func TestChangesAddUpToAReset(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := Config{Problem: func(Problem) {}}
		elsewhere := []netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("fd00::2")}
		k := newFakeKernel(t)
		k.device.state.elsewhere = elsewhere
		b := k.backend(cfg)
		present := map[int]*proxier.ServicePort{}
		state := func() *proxier.State { return stateOf(slices.Collect(maps.Values(present))...) }
		if err := b.Reset(rt.Context(), state()); err != nil {
			rt.Fatal(err)
		}
		for range rapid.IntRange(1, 12).Draw(rt, "rounds") {
			var d proxier.Delta
			for range rapid.IntRange(1, 3).Draw(rt, "changes") {
				n := rapid.IntRange(0, 5).Draw(rt, "which")
				if old := present[n]; old != nil {
					d.Remove = append(d.Remove, old.Key)
					d.Update = slices.DeleteFunc(d.Update, func(p *proxier.ServicePort) bool { return p == old })
					delete(present, n)
				}
				if rapid.IntRange(0, 2).Draw(rt, "there") > 0 {
					p := drawPort(rt, n)
					present[n] = p
					d.Update = append(d.Update, p)
					d.Remove = slices.DeleteFunc(d.Remove, func(k proxier.Key) bool { return k == p.Key })
				}
			}
			var err error
			switch rapid.IntRange(0, 5).Draw(rt, "how") {
			case 0: // the process starts again
				b = k.backend(cfg)
				err = b.Reset(rt.Context(), state())
			case 1:
				err = b.Reset(rt.Context(), state())
			default:
				err = b.Apply(rt.Context(), d)
			}
			if err != nil {
				rt.Fatal(err)
			}
		}
		fresh := newFakeKernel(t)
		fresh.device.state.elsewhere = elsewhere
		fb := fresh.backend(cfg)
		if err := fb.Reset(rt.Context(), state()); err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(stand(rt, fresh, fb), stand(rt, k, b)); diff != "" {
			rt.Fatalf("the kernel differs from a first Reset (-first +now):\n%s", diff)
		}
		if lines, err := b.Plan(rt.Context(), state()); err != nil || len(lines) > 0 {
			rt.Fatalf("Plan = %q, %v, want nothing to do", lines, err)
		}
		if err := b.Cleanup(rt.Context()); err != nil {
			rt.Fatal(err)
		}
		if len(k.virtual) > 0 || len(k.rules.elements) > 0 || k.device.state.exists {
			rt.Fatalf("after Cleanup: %v, %d elements", k.lines(), len(k.rules.elements))
		}
	})
}
