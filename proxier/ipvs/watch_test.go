package ipvs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodekit-go/nodekit/proxier"
)

// watching runs Watch of a Backend with one Service in force, and counts what it tells.
func watching(t *testing.T, f func(k *fakeKernel, b *Backend, drifted *int)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel(t)
		k.device.state.elsewhere = []netip.Addr{netip.MustParseAddr("10.0.0.2")}
		b := k.backend(Config{})
		reset(t, b, web("10.244.1.21:8080", "10.244.1.22:8080"))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		drifted := 0
		go func() { done <- b.Watch(ctx, func() { drifted++ }) }()
		f(k, b, &drifted)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Watch = %v", err)
		}
	})
}

// pass lets time pass; what is due then is done when it returns.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// meanwhile does something to the kernel while Watch does not look at it.
func meanwhile(b *Backend, f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// seen returns the virtual servers while Watch does not change them.
func seen(b *Backend, k *fakeKernel) (lines []string) {
	meanwhile(b, func() { lines = k.lines() })
	return lines
}

func TestWatchRemovesWhatHasDrained(t *testing.T) {
	watching(t, func(k *fakeKernel, b *Backend, drifted *int) {
		vs := keyOf(proxier.TCP, "10.96.0.110:80")
		meanwhile(b, func() { k.connections(vs, "10.244.1.21:8080", 2) })
		apply(t, b, web("10.244.1.22:8080"))
		pass(time.Minute)
		want(t, "with connections", seen(b, k), []string{"TCP 10.96.0.110:80 rr 10.244.1.21:8080=0 10.244.1.22:8080=1"})
		meanwhile(b, func() { k.connections(vs, "10.244.1.21:8080", 0) })
		pass(maxDrainPause)
		want(t, "without connections", seen(b, k), []string{"TCP 10.96.0.110:80 rr 10.244.1.22:8080=1"})

		apply(t, b, web("10.244.1.23:8080"))
		meanwhile(b, func() { k.connections(vs, "10.244.1.22:8080", 1) })
		pass(DefaultDrainTimeout - maxDrainPause)
		want(t, "before its time is over", seen(b, k), []string{"TCP 10.96.0.110:80 rr 10.244.1.22:8080=0 10.244.1.23:8080=1"})
		pass(2 * maxDrainPause)
		want(t, "when its time is over", seen(b, k), []string{"TCP 10.96.0.110:80 rr 10.244.1.23:8080=1"})
		if *drifted != 0 {
			t.Errorf("Watch tells %d times that somebody changed something", *drifted)
		}
	})
}

// Nobody ends a flow of UDP: its endpoint stays for as long as answers may be on their way, at a
// virtual server of an address and at one of a mark, which is of any protocol.
func TestDatagramsLeaveAnEndpointSoon(t *testing.T) {
	dns := func(addrs ...string) *proxier.ServicePort {
		return portOf4("dns", proxier.UDP, at(proxier.ClusterIP, "10.96.0.53", 53), at(proxier.ExternalIP, "192.0.2.1", 53),
			to(addrs...), func(p *proxier.ServicePort) { p.ExternalLocal = true })
	}
	lines := func(targets string) []string {
		return []string{"UDP 10.96.0.53:53 rr" + targets, "UDP 192.0.2.1:53 rr", "mark 0x4e4b0001 IPv4 rr" + targets}
	}
	for _, tt := range []struct {
		name string
		gone func(b *Backend)
	}{
		{"by Apply", func(b *Backend) { apply(t, b, dns("10.244.2.2:53")) }},
		{"by Reset", func(b *Backend) { reset(t, b, dns("10.244.2.2:53")) }},
		{"by an earlier process", func(b *Backend) {
			apply(t, b, dns("10.244.2.2:53"))
			_ = b.Close()
			reset(t, b, dns("10.244.2.2:53"))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			watching(t, func(k *fakeKernel, b *Backend, drifted *int) {
				reset(t, b, dns("10.244.2.1:53", "10.244.2.2:53"))
				meanwhile(b, func() {
					k.connections(keyOf(proxier.UDP, "10.96.0.53:53"), "10.244.2.1:53", 7)
					k.connections(serverKey{family: proxier.IPv4, mark: 0x4e4b0001}, "10.244.2.1:53", 7)
				})
				tt.gone(b)
				want(t, "at first", seen(b, k), lines(" 10.244.2.1:53=0 10.244.2.2:53=1"))
				pass(answerTime + minDrainPause)
				want(t, "soon", seen(b, k), lines(" 10.244.2.2:53=1"))
				if *drifted != 0 {
					t.Errorf("Watch tells %d times that somebody changed something", *drifted)
				}
			})
		})
	}
}

func TestWatchNoticesWhatOthersChange(t *testing.T) {
	vs := keyOf(proxier.TCP, "10.96.0.110:80")
	for _, tt := range []struct {
		name   string
		change func(k *fakeKernel)
		want   bool
	}{
		{"nothing", func(*fakeKernel) {}, false},
		{"a virtual server of somebody else", func(k *fakeKernel) {
			k.virtual[keyOf(proxier.TCP, "192.0.2.1:80")] = &fakeServer{}
		}, false},
		{"another table", func(k *fakeKernel) { k.rules.number++ }, false},
		{"another device of the node", func(k *fakeKernel) {
			k.device.state.elsewhere = append(k.device.state.elsewhere, netip.MustParseAddr("fe80::1"))
		}, false},
		{"virtual server deleted", func(k *fakeKernel) { delete(k.virtual, vs) }, true},
		{"scheduler changed", func(k *fakeKernel) { k.virtual[vs].scheduler = "lc" }, true},
		{"weight changed", func(k *fakeKernel) { k.virtual[vs].targets[netip.MustParseAddrPort("10.244.1.21:8080")].weight = 7 }, true},
		{"real server deleted", func(k *fakeKernel) { delete(k.virtual[vs].targets, netip.MustParseAddrPort("10.244.1.21:8080")) }, true},
		{"address deleted", func(k *fakeKernel) { k.device.state.bound = nil }, true},
		{"the node has a further address", func(k *fakeKernel) {
			k.device.state.elsewhere = append(k.device.state.elsewhere, netip.MustParseAddr("10.0.0.3"))
		}, true},
		{"table deleted", func(k *fakeKernel) { k.rules.number++; _ = k.rules.remove(t.Context()) }, true},
		{"element deleted", func(k *fakeKernel) {
			k.rules.number++
			delete(k.rules.elements, element{in: internal, family: proxier.IPv4, proto: proxier.TCP, at: vs.at})
		}, true},
		{"element added", func(k *fakeKernel) {
			k.rules.number++
			k.rules.elements[element{in: refused, family: proxier.IPv4, proto: proxier.TCP, at: vs.at}] = true
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			watching(t, func(k *fakeKernel, b *Backend, drifted *int) {
				pass(DefaultCheckInterval)
				before := *drifted
				meanwhile(b, func() { tt.change(k) })
				pass(DefaultCheckInterval)
				if got := *drifted > before; got != tt.want || before != 0 {
					t.Errorf("drifted before %d, after %d, want a change: %v", before, *drifted, tt.want)
				}
				reset(t, b, web("10.244.1.21:8080", "10.244.1.22:8080"))
				now := *drifted
				pass(2 * DefaultCheckInterval)
				if *drifted != now {
					t.Error("it is not repaired by a Reset")
				}
			})
		})
	}
}

// Elements are many: they are listed when somebody else has changed something, and not for what
// the Backend did itself.
func TestElementsAreListedAfterChangesOfOthersAlone(t *testing.T) {
	k := noded(t)
	b := k.backend(Config{})
	reset(t, b, np("a", 30080))
	check := func(after string, lists bool) {
		t.Helper()
		k.rules.listed = 0
		for range 2 { // the second time there is nothing new
			if why, err := b.check(t.Context()); why != "" || err != nil {
				t.Errorf("check after %s = %q, %v, want nothing", after, why, err)
			}
		}
		want := 0
		if lists {
			want = int(objectCount)
		}
		if k.rules.listed != want {
			t.Errorf("after %s %d sets are listed, want %d", after, k.rules.listed, want)
		}
	}
	check("a Reset", false)
	apply(t, b, np("b", 30081), web("10.244.1.21:8080"))
	check("an Apply", false)
	if err := b.Apply(t.Context(), proxier.Delta{Remove: []proxier.Key{np("b", 0).Key}, Update: []*proxier.ServicePort{np("c", 30082)}}); err != nil {
		t.Fatal(err)
	}
	check("an Apply that takes two transactions", false)
	k.rules.number++
	check("a transaction of somebody else", true)
	k.rules.number++
	apply(t, b, np("d", 30083))
	check("one of somebody else and an Apply", true)
	reset(t, b, np("a", 30080))
	check("a Reset that takes two transactions", false)
	// Between two looks a virtual server may go.
	keys := b.state.fleet.keys()
	reset(t, b)
	if why, err := b.checkTargetsLocked(t.Context(), keys); why != "" || err != nil {
		t.Errorf("a look at what is gone = %q, %v, want nothing", why, err)
	}
}

// An external address may come to a device of the node and leave it, as those of keepalived do.
func TestWatchNoticesThatAnExternalAddressMoves(t *testing.T) {
	k := noded(t)
	b := k.backend(Config{NodePortPrimary: true})
	vip := netip.MustParseAddr("192.0.2.7")
	svc := portOf4("web", proxier.TCP, at(proxier.ExternalIP, "192.0.2.7", 80), to("10.244.1.21:8080"))
	reset(t, b, svc)
	node := k.device.state.elsewhere
	for _, tt := range []struct {
		elsewhere []netip.Addr
		bound     bool
	}{{append(slices.Clone(node), vip), false}, {node, true}} {
		if why, err := b.check(t.Context()); why != "" || err != nil {
			t.Errorf("check before = %q, %v, want nothing", why, err)
		}
		k.device.state.elsewhere = tt.elsewhere
		if why, err := b.check(t.Context()); why == "" || err != nil {
			t.Errorf("check with %v = %q, %v, want that it moved", tt.elsewhere, why, err)
		}
		reset(t, b, svc)
		if got := has(k.device.state.bound, vip); got != tt.bound {
			t.Errorf("with %v: bound %v, want %v", tt.elsewhere, got, tt.bound)
		}
	}
}

// Who drains an endpoint every half a second does not keep others from being removed.
func TestChurnDoesNotPutOffWhatHasDrained(t *testing.T) {
	watching(t, func(k *fakeKernel, b *Backend, _ *int) {
		at := func(i int) string { return fmt.Sprintf("10.244.2.%d:8080", i) }
		for i := range 20 {
			apply(t, b, web(at(i)))
			pass(minDrainPause / 2)
		}
		// Each is removed within two pauses of its change, a further one allowed.
		targets := 0
		meanwhile(b, func() { targets = len(k.virtual[keyOf(proxier.TCP, "10.96.0.110:80")].targets) })
		if targets > 7 {
			t.Errorf("%d real servers are there, want no more than the last few", targets)
		}
	})
}

func TestWatchTellsThatTheConnectionIsLost(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		name string
		lose func(b *Backend)
		wait time.Duration
	}{
		{"at a look", func(*Backend) {}, DefaultCheckInterval},
		{"while endpoints drain", func(b *Backend) { apply(t, b, web("10.244.1.22:8080")) }, minDrainPause},
		{"by Plan", func(b *Backend) {
			if _, err := b.Plan(t.Context(), stateOf()); !errors.Is(err, broken) {
				t.Errorf("Plan = %v, want what went wrong", err)
			}
		}, DefaultCheckInterval},
	} {
		t.Run(tt.name, func(t *testing.T) {
			watching(t, func(k *fakeKernel, b *Backend, drifted *int) {
				synctest.Wait()
				meanwhile(b, func() { k.broken, k.unreachable = broken, broken })
				tt.lose(b)
				pass(tt.wait)
				if *drifted != 1 {
					t.Errorf("Watch tells %d times that a Reset is needed, want once", *drifted)
				}
				meanwhile(b, func() { k.broken, k.unreachable = nil, nil })
				reset(t, b, web("10.244.1.21:8080", "10.244.1.22:8080"))
				pass(2 * DefaultCheckInterval)
				if *drifted != 1 {
					t.Errorf("after a Reset it tells %d times more", *drifted-1)
				}
			})
		})
	}
}

// A Reset in between does not give an endpoint its time once more.
func TestResetDoesNotProlongDraining(t *testing.T) {
	watching(t, func(k *fakeKernel, b *Backend, _ *int) {
		meanwhile(b, func() { k.connections(keyOf(proxier.TCP, "10.96.0.110:80"), "10.244.1.21:8080", 1) })
		apply(t, b, web("10.244.1.22:8080"))
		pass(DefaultDrainTimeout / 2)
		reset(t, b, web("10.244.1.22:8080"))
		pass(DefaultDrainTimeout/2 - maxDrainPause)
		want(t, "before its time is over", seen(b, k), []string{"TCP 10.96.0.110:80 rr 10.244.1.21:8080=0 10.244.1.22:8080=1"})
		pass(3 * maxDrainPause)
		want(t, "when its time is over", seen(b, k), []string{"TCP 10.96.0.110:80 rr 10.244.1.22:8080=1"})
	})
}
