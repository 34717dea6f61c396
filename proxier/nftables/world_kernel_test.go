//go:build linux

package nftables

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
)

// world is a node with two pods behind a bridge, and with two neighbours: an
// outside client and another node, whose pod is reached by a route.
//
//	client 198.51.100.7 ── node 10.0.0.2 ── other node's pod 10.244.2.15
//	                        │
//	               bridge 10.244.1.1 ── pods 10.244.1.11, 10.244.1.12
type world struct {
	client, node, pod1, pod2, remote *netnstest.NS
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{
		client: netnstest.New(tb), node: netnstest.New(tb),
		pod1: netnstest.New(tb), pod2: netnstest.New(tb), remote: netnstest.New(tb),
	}
	w.node.Forward(tb)
	// The tests refuse more often than the kernel would tell.
	w.node.Sysctl(tb, "ipv4/icmp_ratelimit", "0")
	w.node.Sysctl(tb, "ipv6/icmp/ratelimit", "0")
	netnstest.Veth(tb,
		netnstest.End{NS: w.node, Name: "eth0", Addrs: []string{"198.51.100.1/24", "2001:db8:f::1/64"}},
		netnstest.End{NS: w.client, Name: "eth0", Addrs: []string{"198.51.100.7/24", "2001:db8:f::7/64"}})
	netnstest.Veth(tb,
		netnstest.End{NS: w.node, Name: "eth1", Addrs: []string{"10.244.2.1/24", "fd00:2::1/64"}},
		netnstest.End{NS: w.remote, Name: "eth0", Addrs: []string{"10.244.2.15/24", "fd00:2::15/64"}})
	netnstest.Bridge(tb, netnstest.End{NS: w.node, Name: "br-pods", Addrs: []string{"10.244.1.1/24", "fd00:1::1/64"}})
	w.pod(tb, w.pod1, "vth1", "10.244.1.11/32", "fd00:1::11/128")
	w.pod(tb, w.pod2, "vth2", "10.244.1.12/32", "fd00:1::12/128")
	for _, route := range []struct {
		ns        *netnstest.NS
		via, via6 string
	}{
		{w.client, "198.51.100.1", "2001:db8:f::1"},
		{w.remote, "10.244.2.1", "fd00:2::1"},
		{w.pod1, "10.244.1.1", "fd00:1::1"},
		{w.pod2, "10.244.1.1", "fd00:1::1"},
	} {
		route.ns.IP(tb, "route", "add", "default", "via", route.via, "dev", "eth0", "onlink")
		route.ns.IP(tb, "-6", "route", "add", "default", "via", route.via6, "dev", "eth0", "onlink")
	}
	// The node itself needs some route to virtual addresses, else the kernel
	// refuses before any hook.
	w.node.IP(tb, "route", "add", "default", "via", "198.51.100.7")
	w.node.IP(tb, "-6", "route", "add", "default", "via", "2001:db8:f::7")
	w.node.IP(tb, "addr", "add", "10.0.0.2/32", "dev", "lo")
	return w
}

// pod gives ns an address of its own alone, so that it reaches other pods through
// the node: what passes a bridge meets the node's rules only where br_netfilter is
// loaded.
func (w *world) pod(tb testing.TB, ns *netnstest.NS, veth, addr, addr6 string) {
	tb.Helper()
	netnstest.Veth(tb,
		netnstest.End{NS: w.node, Name: veth, Bridge: "br-pods"},
		netnstest.End{NS: ns, Name: "eth0", Addrs: []string{addr, addr6}})
	// As CNI plugins do: where br_netfilter is active, a pod's connection to
	// itself leaves the bridge by the port it came in by.
	w.node.IP(tb, "link", "set", veth, "type", "bridge_slave", "hairpin", "on")
	// The node would tell pods the shorter way.
	ns.Sysctl(tb, "ipv4/conf/all/accept_redirects", "0")
	ns.Sysctl(tb, "ipv4/conf/eth0/accept_redirects", "0")
	ns.Sysctl(tb, "ipv6/conf/eth0/accept_redirects", "0")
}

// serve answers TCP and UDP at an address: one line with the address itself and
// the source that it sees.
func serve(tb testing.TB, ns *netnstest.NS, addr string) {
	tb.Helper()
	l, err := ns.Listen("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	u, err := ns.ListenPacket("udp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(c, "%s %s\n", addr, c.RemoteAddr())
			_ = c.Close()
		}
	})
	wg.Go(func() {
		buf := make([]byte, 64)
		for {
			_, from, err := u.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = u.WriteTo(fmt.Appendf(nil, "%s %s\n", addr, from), from)
		}
	})
	tb.Cleanup(func() { _ = l.Close(); _ = u.Close(); wg.Wait() })
}

// answer is what a connection found: the endpoint and the source that it saw, or
// "refused" or "timeout" in the place of the endpoint.
type answer struct {
	from   string
	source netip.Addr
}

// patience is how long a connection is waited for at first, and on a machine that may
// have lost a packet or time. It is longer than the first retransmission of TCP (1s): an
// ICMP error that arrives while connect(2) still holds the socket is passed over, and the
// next one counts.
func patience() []time.Duration { return []time.Duration{1700 * time.Millisecond, 5 * time.Second} }

// ask connects to addr from ns.
func ask(tb testing.TB, ns *netnstest.NS, network, addr string) answer {
	tb.Helper()
	var line string
	var err error
	for _, limit := range patience() {
		line, err = exchange(ns, network, addr, limit)
		if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() {
			break
		}
	}
	var timeout net.Error
	switch {
	// A datagram that is rejected on its way out fails at once.
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.EPERM):
		return answer{from: "refused"}
	case errors.As(err, &timeout) && timeout.Timeout():
		return answer{from: "timeout"}
	case err != nil:
		tb.Fatalf("ask %s %s: %v", network, addr, err)
	}
	from, source, _ := strings.Cut(strings.TrimSpace(line), " ")
	ap, err := netip.ParseAddrPort(source)
	if err != nil {
		tb.Fatalf("ask %s %s: answer %q: %v", network, addr, line, err)
	}
	return answer{from: from, source: ap.Addr()}
}

func exchange(ns *netnstest.NS, network, addr string, limit time.Duration) (string, error) {
	c, err := ns.Dial(network, addr, limit)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		return "", err
	}
	if strings.HasPrefix(network, "udp") {
		if _, err := io.WriteString(c, "?"); err != nil {
			return "", err
		}
	}
	return bufio.NewReader(c).ReadString('\n')
}

// spread counts the answers of n connections by endpoint.
func spread(tb testing.TB, ns *netnstest.NS, network, addr string, n int) map[string]int {
	tb.Helper()
	got := make(map[string]int)
	for range n {
		got[ask(tb, ns, network, addr).from]++
	}
	return got
}

func newBackend(tb testing.TB, ns *netnstest.NS, cfg Config) *Backend {
	tb.Helper()
	cfg.NetNS = ns.Path()
	if cfg.Problem == nil {
		cfg.Problem = func(p Problem) { tb.Errorf("problem: %s", p) }
	}
	b, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := b.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return b
}

// podNet is where pods of the world have their addresses.
func podNet() Local {
	return Local{ClusterCIDRs: []netip.Prefix{
		netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00::/16"),
	}}
}

func reset(tb testing.TB, b *Backend, ports ...*proxier.ServicePort) {
	tb.Helper()
	if err := b.Reset(tb.Context(), &proxier.State{Ports: ports}); err != nil {
		tb.Fatal(err)
	}
}

func apply(tb testing.TB, b *Backend, d proxier.Delta) {
	tb.Helper()
	if err := b.Apply(tb.Context(), d); err != nil {
		tb.Fatal(err)
	}
}

func update(tb testing.TB, b *Backend, ports ...*proxier.ServicePort) {
	tb.Helper()
	apply(tb, b, proxier.Delta{Update: ports})
}

func remove(tb testing.TB, b *Backend, ports ...*proxier.ServicePort) {
	tb.Helper()
	var d proxier.Delta
	for _, p := range ports {
		d.Remove = append(d.Remove, p.Key)
	}
	apply(tb, b, d)
}

// listing returns what nft prints for the ruleset, or skips without nft.
func listing(tb testing.TB, ns *netnstest.NS) string {
	tb.Helper()
	netnstest.NeedCommand(tb, "nft")
	out, err := ns.Run("nft", "list", "ruleset")
	if err != nil {
		tb.Fatalf("nft list ruleset: %v", err)
	}
	return out
}
