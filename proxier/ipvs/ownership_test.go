package ipvs

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/proxier"
)

// noded is a kernel whose node has an address, and np a Service with a node port.
func noded(t *testing.T) *fakeKernel {
	t.Helper()
	k := newFakeKernel(t)
	k.device.state.elsewhere = []netip.Addr{netip.MustParseAddr("10.0.0.2")}
	return k
}

func np(name string, port uint16) *proxier.ServicePort {
	return portOf4(name, proxier.TCP, at(proxier.NodePort, "", port), to("10.244.1.21:80"))
}

// refuseOne has the kernel refuse to add the endpoint of a Service, and returns that one.
func refuseOne(k *fakeKernel) *proxier.ServicePort {
	bad := portOf4("bad", proxier.TCP, at(proxier.ClusterIP, "10.96.0.66", 80), to("10.244.1.66:80"))
	k.fail = func(o op) error {
		if o.kind == addTarget && o.target.at.Addr() == netip.MustParseAddr("10.244.1.66") {
			return unix.EINVAL
		}
		return nil
	}
	return bad
}

func TestFailureDoesNotKeepWhatIsToGo(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(b *Backend, bad *proxier.ServicePort) error
	}{
		{"Apply", func(b *Backend, bad *proxier.ServicePort) error {
			return b.Apply(t.Context(), proxier.Delta{Update: []*proxier.ServicePort{bad}, Remove: []proxier.Key{np("np", 1).Key}})
		}},
		{"Reset", func(b *Backend, bad *proxier.ServicePort) error { return b.Reset(t.Context(), stateOf(bad)) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := noded(t)
			b := k.backend(Config{})
			reset(t, b, np("np", 30080))
			if err := tt.change(b, refuseOne(k)); err == nil {
				t.Error("what the kernel refuses is no error")
			}
			want(t, "virtual servers", k.lines(), []string{"TCP 10.96.0.66:80 rr"})
		})
	}
}

// Whenever a change ends early, a process that starts then knows what is to go.
func TestVirtualServersAreKnownUntilTheyAreGone(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(ctx context.Context, b *Backend) error
	}{
		{"Apply", func(ctx context.Context, b *Backend) error {
			return b.Apply(ctx, proxier.Delta{Remove: []proxier.Key{np("np", 1).Key}})
		}},
		{"Reset", func(ctx context.Context, b *Backend) error { return b.Reset(ctx, stateOf(web("10.244.1.21:8080"))) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			end := func(t *testing.T) *fakeKernel {
				t.Helper()
				k := noded(t)
				b := k.backend(Config{})
				reset(t, b, np("np", 30080), web("10.244.1.21:8080"))
				k.fail = func(o op) error {
					if o.kind == deleteServer && o.server.mark == 0 {
						return unix.EBUSY
					}
					return nil
				}
				if err := tt.change(t.Context(), b); err == nil {
					t.Fatal("the change succeeds")
				}
				want(t, "virtual servers before", k.lines(), []string{"TCP 10.0.0.2:30080 rr 10.244.1.21:80=1", "TCP 10.96.0.110:80 rr 10.244.1.21:8080=1"})
				k.fail = nil
				return k
			}
			k := end(t)
			reset(t, k.backend(Config{}), web("10.244.1.21:8080"))
			want(t, "virtual servers", k.lines(), []string{"TCP 10.96.0.110:80 rr 10.244.1.21:8080=1"})
			for e := range k.rules.elements {
				if e.in == owned {
					t.Errorf("the table still has %s", e)
				}
			}
			k = end(t)
			if err := k.backend(Config{}).Cleanup(t.Context()); err != nil {
				t.Fatal(err)
			}
			want(t, "virtual servers after Cleanup", k.lines(), []string{})
		})
	}
}

// The Backend remembers what it has made though its table is gone.
func TestBackendKnowsItsOwnWithoutTheTable(t *testing.T) {
	k := noded(t)
	b := k.backend(Config{})
	reset(t, b, np("np", 30080))
	_ = k.rules.remove(t.Context())
	k.rules.fail = errors.New("no")
	if err := b.Reset(t.Context(), stateOf()); err == nil {
		t.Error("Reset succeeds without a table")
	}
	k.rules.fail = nil
	reset(t, b)
	want(t, "virtual servers", k.lines(), []string{})
}

func TestKubeProxysDeviceIsClaimedWhenItsVirtualServersAreGone(t *testing.T) {
	k := noded(t)
	k.device.state.exists = true
	stale := keyOf(proxier.TCP, "10.0.0.2:30099")
	k.virtual[stale] = &fakeServer{settings: settings{scheduler: "rr"}}
	k.fail = func(o op) error {
		if o.kind == deleteServer && o.server == stale {
			return unix.EBUSY
		}
		return nil
	}
	if err := k.backend(Config{}).Reset(t.Context(), stateOf()); err == nil || k.device.state.ours {
		t.Errorf("Reset = %v, claimed %v, want an error and the device as it was", err, k.device.state.ours)
	}
	k.fail = nil
	reset(t, k.backend(Config{}))
	want(t, "virtual servers", k.lines(), []string{})
	if !k.device.state.ours {
		t.Error("the device is not claimed")
	}
}

// A Service takes over the virtual server that is there, and leaves it when it goes.
func TestExcludedVirtualServersAreNeverRemoved(t *testing.T) {
	cfg := Config{ExcludeCIDRs: []netip.Prefix{netip.MustParsePrefix("192.0.2.192/26")}}
	svc := func(addr string) *proxier.ServicePort {
		return portOf4("lb", proxier.TCP, at(proxier.LoadBalancer, addr, 80), to("10.244.1.21:80"))
	}
	for _, tt := range []struct {
		name string
		gone func(b *Backend) error
	}{
		{"Apply", func(b *Backend) error {
			return b.Apply(t.Context(), proxier.Delta{Remove: []proxier.Key{svc("192.0.2.200").Key}})
		}},
		{"Apply of another address", func(b *Backend) error {
			p := svc("192.0.2.200")
			p.Frontends = nil
			return b.Apply(t.Context(), proxier.Delta{Update: []*proxier.ServicePort{p}})
		}},
		{"Reset", func(b *Backend) error { return b.Reset(t.Context(), stateOf()) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := noded(t)
			k.virtual[keyOf(proxier.TCP, "192.0.2.200:80")] = &fakeServer{settings: settings{scheduler: "wlc"}, targets: map[netip.AddrPort]*foundTarget{}}
			b := k.backend(cfg)
			reset(t, b, svc("192.0.2.200"))
			left := []string{"TCP 192.0.2.200:80 rr 10.244.1.21:80=1"}
			want(t, "taken over", k.lines(), left)
			if err := tt.gone(b); err != nil {
				t.Fatal(err)
			}
			want(t, "after the Service", k.lines(), left)
			if why, err := b.check(t.Context()); why != "" || err != nil {
				t.Errorf("check = %q, %v, want nothing", why, err)
			}
			reset(t, b)
			want(t, "after a Reset", k.lines(), left)
			if err := b.Cleanup(t.Context()); err != nil {
				t.Fatal(err)
			}
			want(t, "after Cleanup", k.lines(), left)
		})
	}
}

// Connections of this node and its pods outlive the moment in which no endpoint is ready.
func TestShortcutOutlivesItsEndpoints(t *testing.T) {
	k := noded(t)
	b := k.backend(Config{})
	lb := func(change func(p *proxier.ServicePort)) *proxier.ServicePort {
		p := portOf4("lb", proxier.TCP, at(proxier.NodePort, "", 30080), func(p *proxier.ServicePort) { p.ExternalLocal = true })
		change(p)
		return p
	}
	here := endpoints("10.244.1.21:80(here)")
	ready := lb(func(p *proxier.ServicePort) { p.Cluster, p.Local, p.HasEndpoints = here, here, true })
	node := netip.MustParseAddrPort("10.0.0.2:30080")
	in := func(o object, mark uint32) element {
		return element{in: o, family: proxier.IPv4, proto: proxier.TCP, at: node, mark: mark}
	}
	for _, tt := range []struct {
		name string
		port *proxier.ServicePort
		want []element
	}{
		{"nobody", lb(func(*proxier.ServicePort) {}), []element{in(externalLocal, 0x4e4b0001), in(refused, 0), in(owned, 0)}},
		{"nobody that may be used", lb(func(p *proxier.ServicePort) { p.HasEndpoints = true }), []element{in(localOnly, 0), in(dropped, 0), in(owned, 0)}},
		{"local ones alone", lb(func(p *proxier.ServicePort) { p.HasEndpoints, p.Local = true, endpoints("10.244.1.22:80") }), []element{in(localOnly, 0), in(owned, 0)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reset(t, b, ready)
			k.taken()
			apply(t, b, tt.port)
			if !slices.Contains(k.lines(), "mark 0x4e4b0001 IPv4 rr 10.244.1.21:80=0") {
				t.Errorf("the virtual server of the mark does not keep its connections: %q", k.lines())
			}
			got := slices.SortedFunc(func(yield func(element) bool) {
				for e := range k.rules.elements {
					if e.at == node && !yield(e) {
						return
					}
				}
			}, element.compare)
			if !slices.Equal(got, slices.SortedFunc(slices.Values(tt.want), element.compare)) {
				t.Errorf("elements %v, want %v", got, tt.want)
			}
			apply(t, b, ready)
			if !slices.Contains(k.lines(), "mark 0x4e4b0001 IPv4 rr 10.244.1.21:80=1") {
				t.Errorf("it does not serve again: %q", k.lines())
			}
			if slices.ContainsFunc(k.ops, func(o op) bool { return o.kind == deleteServer && o.server.mark == 0x4e4b0001 }) {
				t.Error("it was deleted meanwhile")
			}
		})
	}
}
