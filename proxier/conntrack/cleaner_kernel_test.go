//go:build linux

package conntrack

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
)

// entry adds a UDP flow to the table of ns: what a client at 10.0.0.9 sent to dst,
// and what answers.
func entry(tb testing.TB, ns *netnstest.NS, sport int, dst, from string) {
	tb.Helper()
	to, answer := netip.MustParseAddrPort(dst), netip.MustParseAddrPort(from)
	client := "10.0.0.9"
	if to.Addr().Is6() {
		client = "fd00::9"
	}
	args := []string{
		"-I", "-p", "udp", "-t", "600", "-s", client, "-d", to.Addr().String(), "--sport", fmt.Sprint(sport), "--dport", fmt.Sprint(to.Port()),
		"-r", answer.Addr().String(), "-q", client, "--reply-port-src", fmt.Sprint(answer.Port()), "--reply-port-dst", fmt.Sprint(sport),
	}
	if _, err := ns.Run("conntrack", args...); err != nil {
		tb.Fatal(err)
	}
}

// table returns the UDP flows of ns as "dst<-from".
func table(tb testing.TB, ns *netnstest.NS) []string {
	tb.Helper()
	k, err := dial(ns.Path())
	if err != nil {
		tb.Fatal(err)
	}
	defer k.close()
	var out []string
	for _, f := range []proxier.Family{proxier.IPv4, proxier.IPv6} {
		if _, err := k.flows(tb.Context(), f, frontend{}, func(all []flow) error {
			for _, fl := range all {
				out = append(out, fmt.Sprintf("%s<-%s", fl.dst, fl.from))
			}
			return nil
		}); err != nil {
			tb.Fatal(err)
		}
	}
	slices.Sort(out)
	return out
}

func udpPort(name, frontends string, serving ...string) *proxier.ServicePort {
	p := &proxier.ServicePort{Key: proxier.Key{
		PortName: proxier.PortName{Namespace: "ns", Name: name, Protocol: proxier.UDP}, Family: proxier.IPv4,
	}}
	for s := range strings.FieldsSeq(frontends) {
		if a, err := netip.ParseAddrPort(s); err == nil {
			p.Key.Family = proxier.FamilyOf(a.Addr())
			p.Frontends = append(p.Frontends, proxier.Frontend{Kind: proxier.ClusterIP, Addr: a.Addr(), Port: a.Port()})
			continue
		}
		var n uint16
		_, _ = fmt.Sscan(s, &n)
		p.Frontends = append(p.Frontends, proxier.Frontend{Kind: proxier.NodePort, Port: n})
	}
	for _, s := range serving {
		p.Serving = append(p.Serving, netip.MustParseAddrPort(s))
	}
	return p
}

// clean makes the pending searches and returns what they were.
func clean(t *testing.T, c *Cleaner) []Search {
	t.Helper()
	var out []Search
	c.cfg.Observe = func(s Search) {
		if s.Err != nil {
			t.Error(s.Err)
		}
		s.Took = 0
		out = append(out, s)
	}
	if !c.clean(t.Context()) {
		t.Error("a search failed")
	}
	return out
}

func want(t *testing.T, ns *netnstest.NS, what string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if diff := cmp.Diff(want, table(t, ns)); diff != "" {
		t.Errorf("%s: flows (-want +got):\n%s", what, diff)
	}
}

func newCleaner(t *testing.T) (*netnstest.NS, *Cleaner) {
	t.Helper()
	netnstest.NeedCommand(t, "conntrack")
	ns := netnstest.New(t)
	ns.IP(t, "addr", "add", "10.0.0.2/32", "dev", "lo")
	c, err := New(Config{NetNS: ns.Path()})
	if err != nil {
		t.Fatal(err)
	}
	return ns, c
}

func TestKernelFlowsOfGoneEndpointsAreForgotten(t *testing.T) {
	t.Parallel()
	ns, c := newCleaner(t)
	entry(t, ns, 1, "10.96.0.10:53", "10.244.0.1:5353") // healthy
	entry(t, ns, 2, "10.96.0.10:53", "10.244.0.2:5353") // healthy
	entry(t, ns, 3, "10.96.0.10:53", "10.244.0.7:5353") // stale since before the start
	entry(t, ns, 4, "10.96.0.10:53", "10.96.0.10:53")   // from before there were rules
	entry(t, ns, 5, "10.0.0.2:30053", "10.244.0.2:5353")
	entry(t, ns, 6, "192.0.2.1:30053", "192.0.2.1:30053") // somebody else's
	entry(t, ns, 7, "192.0.2.1:53", "192.0.2.1:53")
	entry(t, ns, 8, "[fd00:96::a]:53", "[fd00::7]:5353")
	all := udpPort("dns", "10.96.0.10:53 30053", "10.244.0.1:5353", "10.244.0.2:5353")
	c.Reset(&proxier.State{Ports: []*proxier.ServicePort{all, udpPort("dns", "[fd00:96::a]:53", "[fd00::1]:5353")}})
	clean(t, c)
	want(t, ns, "after the start", "10.96.0.10:53<-10.244.0.1:5353", "10.96.0.10:53<-10.244.0.2:5353",
		"10.0.0.2:30053<-10.244.0.2:5353", "192.0.2.1:30053<-192.0.2.1:30053", "192.0.2.1:53<-192.0.2.1:53")

	c.Reset(&proxier.State{Ports: []*proxier.ServicePort{all, udpPort("dns", "[fd00:96::a]:53", "[fd00::1]:5353")}})
	if got := clean(t, c); len(got) > 0 {
		t.Errorf("the same state was searched for: %+v", got)
	}

	c.Applied(proxier.Delta{Update: []*proxier.ServicePort{udpPort("dns", "10.96.0.10:53 30053", "10.244.0.1:5353")}})
	got := clean(t, c)
	if diff := cmp.Diff([]Search{{Family: proxier.IPv4, Frontends: 2, Seen: 4, Deleted: 2}}, got); diff != "" {
		t.Errorf("an endpoint went (-want +got):\n%s", diff)
	}
	want(t, ns, "an endpoint went", "10.96.0.10:53<-10.244.0.1:5353", "192.0.2.1:30053<-192.0.2.1:30053", "192.0.2.1:53<-192.0.2.1:53")

	c.Applied(proxier.Delta{Remove: []proxier.Key{all.Key}})
	clean(t, c)
	want(t, ns, "the Service went", "192.0.2.1:30053<-192.0.2.1:30053", "192.0.2.1:53<-192.0.2.1:53")
}

// The kernel is asked about IPv6 frontends by their port alone.
func TestKernelFlowsOfIPv6FrontendsAreForgotten(t *testing.T) {
	t.Parallel()
	ns, c := newCleaner(t)
	port := func(serving ...string) *proxier.ServicePort { return udpPort("dns", "[fd00:96::a]:53", serving...) }
	other := udpPort("other", "[fd00:96::b]:53", "[fd00::7]:53")
	c.Reset(&proxier.State{Ports: []*proxier.ServicePort{port("[fd00::1]:53", "[fd00::7]:53"), other}})
	clean(t, c)
	entry(t, ns, 1, "[fd00:96::a]:53", "[fd00::1]:53")
	entry(t, ns, 2, "[fd00:96::a]:53", "[fd00::7]:53")
	entry(t, ns, 3, "[fd00:96::b]:53", "[fd00::7]:53")
	entry(t, ns, 4, "[2001:db8::1]:53", "[2001:db8::1]:53")
	c.Applied(proxier.Delta{Update: []*proxier.ServicePort{port("[fd00::1]:53")}})
	if got := clean(t, c); len(got) != 1 || got[0].Frontends != 1 || got[0].Deleted != 1 {
		t.Errorf("searches are %+v, want one for one frontend that deletes one flow", got)
	}
	want(t, ns, "an endpoint went", "[fd00:96::a]:53<-[fd00::1]:53", "[fd00:96::b]:53<-[fd00::7]:53", "[2001:db8::1]:53<-[2001:db8::1]:53")
}

func TestKernelFlowsOfAGapWithoutEndpointsAreForgotten(t *testing.T) {
	t.Parallel()
	ns, c := newCleaner(t)
	c.Reset(&proxier.State{Ports: []*proxier.ServicePort{udpPort("a", "10.96.0.50:53"), udpPort("b", "10.96.0.51:53", "10.244.0.1:53")}})
	clean(t, c)
	entry(t, ns, 1, "10.96.0.50:53", "10.96.0.50:53")
	entry(t, ns, 2, "10.96.0.51:53", "10.244.0.1:53")
	c.Applied(proxier.Delta{Update: []*proxier.ServicePort{udpPort("a", "10.96.0.50:53", "10.244.1.12:53")}})
	if got := clean(t, c); len(got) != 1 || got[0].Seen != 1 || got[0].Deleted != 1 {
		t.Errorf("searches are %+v, want one that sees and deletes one flow", got)
	}
	want(t, ns, "an endpoint came", "10.96.0.51:53<-10.244.0.1:53")
	// More endpoints make no flow stale.
	c.Applied(proxier.Delta{Update: []*proxier.ServicePort{udpPort("a", "10.96.0.50:53", "10.244.1.12:53", "10.244.1.13:53")}})
	if got := clean(t, c); len(got) > 0 {
		t.Errorf("one endpoint more was searched for: %+v", got)
	}
	// A new address of the Service may have flows from before.
	entry(t, ns, 3, "192.0.2.8:53", "192.0.2.8:53")
	c.Applied(proxier.Delta{Update: []*proxier.ServicePort{udpPort("a", "10.96.0.50:53 192.0.2.8:53", "10.244.1.12:53", "10.244.1.13:53")}})
	clean(t, c)
	want(t, ns, "a new address", "10.96.0.51:53<-10.244.0.1:53")
}

func TestKernelManyFrontendsAreOneSearch(t *testing.T) {
	t.Parallel()
	ns, c := newCleaner(t)
	c.Reset(&proxier.State{})
	clean(t, c)
	var d proxier.Delta
	for i := range 20 {
		entry(t, ns, 100+i, fmt.Sprintf("10.96.1.%d:53", i+1), fmt.Sprintf("10.96.1.%d:53", i+1))
		d.Update = append(d.Update, udpPort(fmt.Sprint(i), fmt.Sprintf("10.96.1.%d:53", i+1), "10.244.0.1:53"))
	}
	entry(t, ns, 99, "192.0.2.1:53", "192.0.2.1:53")
	c.Applied(d)
	if got := clean(t, c); len(got) != 1 || got[0].Deleted != 20 {
		t.Errorf("searches are %+v, want one that deletes 20 flows", got)
	}
	want(t, ns, "all new", "192.0.2.1:53<-192.0.2.1:53")
}

func TestKernelRunCleansUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	ns, c := newCleaner(t)
	entry(t, ns, 1, "10.96.0.10:53", "10.244.0.9:53")
	searched := make(chan Search, 10)
	c.cfg.Observe = func(s Search) { searched <- s }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	c.Reset(&proxier.State{Ports: []*proxier.ServicePort{udpPort("dns", "10.96.0.10:53", "10.244.0.1:53")}})
	for deleted := 0; deleted == 0; {
		select {
		case s := <-searched:
			deleted += s.Deleted
		case <-time.After(10 * time.Second):
			t.Fatal("nothing was deleted")
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run() = %v", err)
	}
}

// What a client keeps open goes on after the gap: packets of a real socket.
func TestKernelClientThatNeverPausesReachesTheNewEndpoint(t *testing.T) {
	t.Parallel()
	ns, c := newCleaner(t)
	if _, err := ns.Run("nft", "add table ip t; add chain ip t o { type nat hook output priority -100; }"); err != nil {
		t.Fatal(err)
	}
	ns.IP(t, "addr", "add", "10.244.0.1/32", "dev", "lo")
	ns.IP(t, "addr", "add", "10.96.0.10/32", "dev", "lo")
	server, err := ns.ListenPacket("udp", "10.244.0.1:53")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client, err := ns.Dial("udp", "10.96.0.10:53", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c.Reset(&proxier.State{Ports: []*proxier.ServicePort{udpPort("dns", "10.96.0.10:53")}})
	clean(t, c)
	send := func() bool {
		_, _ = client.Write([]byte("?"))
		_ = server.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		_, _, err := server.ReadFrom(make([]byte, 9))
		return err == nil
	}
	if send() {
		t.Fatal("a packet arrived before there was a rule")
	}
	if _, err := ns.Run("nft", "add rule ip t o ip daddr 10.96.0.10 udp dport 53 dnat to 10.244.0.1:53"); err != nil {
		t.Fatal(err)
	}
	if send() {
		t.Fatal("the flow from before was not pinned: the test shows nothing")
	}
	c.Applied(proxier.Delta{Update: []*proxier.ServicePort{udpPort("dns", "10.96.0.10:53", "10.244.0.1:53")}})
	clean(t, c)
	if !send() {
		t.Error("the packets of the same socket do not arrive")
	}
}
