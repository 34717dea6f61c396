package proxiertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/conntrack"
)

// newBackend makes a Backend in a World.
type newBackend = func(tb testing.TB, w *World) proxier.Backend

// others are Services that nobody asks.
func others(n int) []service {
	var out []service
	for i := range n {
		out = append(out, service{number: 100 + i, endpoints: on(Far1, Far2)})
	}
	return out
}

// probed is the Service that is asked all the time.
func probed() service { return service{number: 1, endpoints: on(Pod1, Far1)} }

// probe asks it until the function it returns is called, which fails the test for each
// connection and datagram that the rules lost. It asks from a pod, as who is masqueraded
// gets a source port by chance, and directly a host that is no endpoint: one that still
// remembers a connection from the same address and port loses packets, whatever the
// rules do.
func (w *World) probe(t *testing.T) (stop func()) {
	t.Helper()
	// A small machine's table has room for 8192 connections. With two minutes for each that has
	// ended, some thousand probes fill it, and the kernel drops what does not fit in.
	w.spaces[OurNode].Sysctl(t, "netfilter/nf_conntrack_tcp_timeout_time_wait", "5")
	return netnstest.Probes{
		From: w.spaces[Pod2], Networks: []string{"tcp", "udp", "tcp"},
		Virtual: probed().frontend(proxier.ClusterIP, proxier.IPv4).String(),
		Direct:  netip.AddrPortFrom(Far2.Addr(proxier.IPv4), targetPort).String(),
	}.Start(t)
}

func set(t *testing.T, p Proxy, services ...service) {
	t.Helper()
	if err := p.Set(t.Context(), objectsOf(services)); err != nil {
		t.Fatal(err)
	}
}

// restart starts the Backend again and again, as after a crash, over what it left.
func restart(t *testing.T, newBackend newBackend) {
	t.Helper()
	w := NewWorld(t)
	all := append(others(200), probed())
	set(t, newTracked(newBackend(t, w)), all...)
	stop := w.probe(t)
	for range 4 {
		set(t, newTracked(newBackend(t, w)), all...)
	}
	stop()
}

// Switch tells whether connections survive a change of mode: from programs Services,
// then to programs the same, and from is cleaned up after. It is for two Backends that do
// not know each other.
func Switch(t *testing.T, from, to func(tb testing.TB, w *World) proxier.Backend) {
	t.Helper()
	w := NewWorld(t)
	all := append(others(50), probed())
	old := newBackend(from)(t, w)
	set(t, newTracked(old), all...)
	stop := w.probe(t)
	next := newTracked(newBackend(to)(t, w))
	set(t, next, all...)
	if err := old.Cleanup(t.Context()); err != nil {
		t.Errorf("clean up the old mode: %v", err)
	}
	set(t, next, append(others(40), probed())...)
	stop()
}

// Sizes of the churn: so many Services, and so many changes of several of them at once.
const (
	churned      = 1000
	churnRounds  = 30
	churnAtATime = 34
)

// churn changes a thousand Services, one thousand times, and the endpoints of the one that is
// asked, too.
func churn(t *testing.T, newBackend newBackend) {
	t.Helper()
	w := NewWorld(t)
	b := newBackend(t, w)
	// What is in force is looked at once in the end: to list it all takes its time.
	p := newTracked(struct{ proxier.Backend }{b})
	all := append(others(churned), probed())
	set(t, p, all...)
	stop := w.probe(t)
	r := rand.New(rand.NewPCG(1, 2))
	for round := range churnRounds {
		now := all[:churned:churned]
		for range churnAtATime {
			i := r.IntN(churned)
			switch r.IntN(3) {
			case 0: // gone, until its next turn
				now[i].endpoints = nil
			case 1:
				now[i].endpoints = on(Pod1, Pod2, Far1, Far2)[:1+r.IntN(4)]
			case 2:
				now[i].internalLocal = !now[i].internalLocal
			}
		}
		// A few are deleted, and come back in the next round.
		web := probed()
		if round%2 == 0 {
			now, web.endpoints = now[:churned-r.IntN(churnAtATime)], on(Far1)
		}
		set(t, p, append(now, web)...)
	}
	stop()
	p.backend = b
	if err := p.inspect(t.Context()); err != nil {
		t.Error(err)
	}
}

// timesOut pins a client for a second and wants it free afterwards.
func timesOut(t *testing.T, newBackend newBackend) {
	t.Helper()
	w := NewWorld(t)
	p := newTracked(newBackend(t, w))
	if p.PinsByFrontend() {
		return // the connections that ask would prolong the time
	}
	s := service{number: 1, endpoints: on(Pod1, Far1, Far2), affinity: true}
	set(t, p, s)
	to := s.frontend(proxier.ClusterIP, proxier.IPv4)
	seen := map[netip.Addr]bool{}
	ask := func() {
		t.Helper()
		got, err := w.patiently(func(limit time.Duration) (outcome, error) {
			return w.connect(attempt{Pod2, proxier.TCP, to}, limit)
		})
		if err != nil || got.fate != served {
			t.Fatalf("connect to %s: %s, %v", to, got.describe(), err)
		}
		seen[got.endpoint] = true
	}
	for range 10 {
		ask()
	}
	if len(seen) != 1 {
		t.Errorf("within an hour a client meets %d endpoints, want 1", len(seen))
	}
	s.timeout = 1
	set(t, p, s)
	// Two seconds of silence are more than one in any clock. The odds that one of three
	// endpoints is drawn thirty times in a row are 3⁻²⁹.
	for tries := 0; len(seen) == 1; tries++ {
		if tries == 30 {
			t.Fatalf("after its time a client always meets %v", seen)
		}
		<-time.After(2200 * time.Millisecond)
		ask()
	}
}

// flowsMove sends datagrams from sockets that stay open: what the kernel remembers of
// their flows must not outlive the endpoint, and must stay while it is there.
func flowsMove(t *testing.T, newBackend newBackend) {
	t.Helper()
	w := NewWorld(t)
	cleaner, err := conntrack.New(conntrack.Config{
		NetNS: w.NetNS(OurNode), Observe: func(s conntrack.Search) { t.Logf("search for flows: %+v", s) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- cleaner.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	p := newTracked(newBackend(t, w), cleaner)
	moving := service{number: 1, endpoints: on(Far1), nodePort: true}
	steady := service{number: 2, endpoints: on(Far1)}
	set(t, p, moving, steady)
	var flows []*flowing
	for _, family := range families() {
		for _, kind := range []proxier.FrontendKind{clusterIP, nodePort} {
			flows = append(flows, w.flow(t, Outside, moving.frontend(kind, family)))
		}
	}
	stays := w.flow(t, Pod2, steady.frontend(clusterIP, proxier.IPv4))
	stays.reaches(t, Far1)
	for _, step := range []Host{Far1, Far2, Pod1} {
		moving.endpoints = on(step)
		steady.endpoints = on(Far1, Pod1, step) // more endpoints, and the same
		set(t, p, moving, steady)
		for _, f := range flows {
			f.reaches(t, step)
		}
		stays.reaches(t, Far1)
	}
}

// flowing is a UDP socket that stays open.
type flowing struct {
	net.Conn
	to netip.AddrPort
}

func (w *World) flow(t *testing.T, from Host, to netip.AddrPort) *flowing {
	t.Helper()
	c, err := w.dial(w.spaces[from], &net.Dialer{LocalAddr: &net.UDPAddr{Port: w.clientPort()}}, "udp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &flowing{Conn: c, to: to}
}

// reaches sends datagrams until one is answered by a host.
func (f *flowing) reaches(t *testing.T, want Host) {
	t.Helper()
	answer := make([]byte, 256)
	last := ""
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); {
		_, _ = f.Write([]byte("?"))
		_ = f.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		n, err := f.Read(answer)
		if err != nil {
			last = err.Error()
			continue
		}
		var endpoint string
		if _, err := fmt.Sscan(string(answer[:n]), &endpoint); err != nil {
			t.Fatalf("answer %q: %v", answer[:n], err)
		}
		at, err := netip.ParseAddrPort(endpoint)
		if err == nil && at.Addr() == want.Addr(proxier.FamilyOf(f.to.Addr())) {
			return
		}
		last = endpoint
	}
	t.Errorf("after three minutes a flow to %s does not reach %s: %s", f.to, want, last)
}
