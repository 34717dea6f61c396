package proxiertest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
)

// World is a node among others, each a network namespace:
//
//	outside ──────┐        ┌── far-1
//	client-node ──┤        │
//	           our-node ───┤
//	pod-1 ── bridge        │
//	pod-2 ────┘            └── far-2
//
// All pods answer TCP, UDP and, where the kernel has it, SCTP. It lives until the test ends.
type World struct {
	spaces map[Host]*netnstest.NS
	// clients counts the sockets of clients.
	clients atomic.Uint32
}

// NewWorld makes a World. It needs root and the ip command of iproute2, and skips the
// test where they cannot be had; with REQUIRE_KERNEL=1 it fails the test instead.
func NewWorld(tb testing.TB) *World {
	tb.Helper()
	w := &World{spaces: map[Host]*netnstest.NS{}}
	for h := Outside; h <= Far2; h++ {
		w.spaces[h] = netnstest.New(tb)
	}
	node := w.spaces[OurNode]
	node.Forward(tb)
	// The tests refuse more often than the kernel would tell.
	node.Sysctl(tb, "ipv4/icmp_ratemask", "0")
	node.Sysctl(tb, "ipv6/icmp/ratelimit", "0")
	w.link(tb, Outside, "out", "198.51.100.1/24", "2001:db8:f::1/64")
	w.link(tb, ClientNode, "peer", "10.0.3.1/24", "2001:db8:3::1/64")
	w.link(tb, Far1, "far1", "10.244.2.1/24", "fd00:244:2::1/64")
	w.link(tb, Far2, "far2", "10.244.3.1/24", "fd00:244:3::1/64")
	netnstest.Bridge(tb, netnstest.End{NS: node, Name: "br-pods", Addrs: []string{"10.244.1.1/24", "fd00:244:1::1/64"}})
	w.pod(tb, Pod1, "vth1")
	w.pod(tb, Pod2, "vth2")
	netnstest.Address(tb, node, "lo", "10.0.0.2/32", "2001:db8:1::2/128")
	// The node needs some route to virtual addresses, else the kernel refuses before
	// any hook.
	node.IP(tb, "route", "add", "default", "via", "198.51.100.7")
	node.IP(tb, "-6", "route", "add", "default", "via", "2001:db8:f::7")
	for h := Pod1; h <= Far2; h++ {
		for _, family := range families() {
			serve(tb, w.spaces[h], netip.AddrPortFrom(h.Addr(family), targetPort).String())
		}
	}
	return w
}

// NetNS is the path of the network namespace of a host, as setns(2) takes it from a
// file; it is valid for this process and its children.
func (w *World) NetNS(h Host) string { return w.spaces[h].Path() }

// Do runs f on a thread in the network namespace of a host.
func (w *World) Do(h Host, f func() error) error { return w.spaces[h].Do(f) }

// link joins a host to the node, which has the two gateway addresses.
func (w *World) link(tb testing.TB, h Host, name, gateway4, gateway6 string) {
	tb.Helper()
	netnstest.Veth(tb,
		netnstest.End{NS: w.spaces[OurNode], Name: name, Addrs: []string{gateway4, gateway6}},
		netnstest.End{NS: w.spaces[h], Name: "eth0", Addrs: []string{
			h.Addr(proxier.IPv4).String() + "/24", h.Addr(proxier.IPv6).String() + "/64",
		}})
	w.route(tb, h, gateway4, gateway6)
}

// pod joins a local pod to the bridge. It has an address of its own alone, so that it
// reaches the other pod through the node.
func (w *World) pod(tb testing.TB, h Host, veth string) {
	tb.Helper()
	ns := w.spaces[h]
	netnstest.Veth(tb,
		netnstest.End{NS: w.spaces[OurNode], Name: veth, Bridge: "br-pods"},
		netnstest.End{NS: ns, Name: "eth0", Addrs: []string{
			h.Addr(proxier.IPv4).String() + "/32", h.Addr(proxier.IPv6).String() + "/128",
		}})
	// As CNI plugins do: where br_netfilter is active, a pod's connection to itself
	// leaves the bridge by the port it came in by.
	w.spaces[OurNode].IP(tb, "link", "set", veth, "type", "bridge_slave", "hairpin", "on")
	// The node would tell pods the shorter way.
	for _, name := range []string{"ipv4/conf/all/accept_redirects", "ipv4/conf/eth0/accept_redirects", "ipv6/conf/eth0/accept_redirects"} {
		ns.Sysctl(tb, name, "0")
	}
	w.route(tb, h, "10.244.1.1/24", "fd00:244:1::1/64")
}

func (w *World) route(tb testing.TB, h Host, gateway4, gateway6 string) {
	tb.Helper()
	via4, _, _ := strings.Cut(gateway4, "/")
	via6, _, _ := strings.Cut(gateway6, "/")
	w.spaces[h].IP(tb, "route", "add", "default", "via", via4, "dev", "eth0", "onlink")
	w.spaces[h].IP(tb, "-6", "route", "add", "default", "via", via6, "dev", "eth0", "onlink")
}

// serve answers TCP, UDP and, where there is, SCTP at an address: one line with the address itself and the
// source that it sees.
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
	listeners := []net.Listener{l}
	if slices.Contains(protocols(), proxier.SCTP) {
		s, err := ns.ListenSCTP(netip.MustParseAddrPort(addr))
		if err != nil {
			tb.Fatal(err)
		}
		listeners = append(listeners, s)
	}
	var wg sync.WaitGroup
	for _, l := range listeners {
		wg.Go(func() { greet(l, addr) })
	}
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
	tb.Cleanup(func() {
		for _, l := range listeners {
			_ = l.Close()
		}
		_ = u.Close()
		wg.Wait()
	})
}

// greet answers connections until the listener is closed.
func greet(l net.Listener, addr string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		fmt.Fprintf(c, "%s %s\n", addr, c.RemoteAddr())
		_ = c.Close()
	}
}

// patience is how long a connection is waited for at first. It is longer than the first
// retransmission of TCP (1 s, RFC 6298): an ICMP error that arrives while connect(2)
// still holds the socket is passed over, and the next one counts.
const patience = 1700 * time.Millisecond

// attempt is one connection.
type attempt struct {
	from     Host
	protocol proxier.Protocol
	to       netip.AddrPort
}

// connect makes one connection, waits for it no longer than limit, and returns who
// answered and which source it saw.
func (w *World) connect(a attempt, limit time.Duration) (outcome, error) {
	line, err := w.exchange(a, limit)
	var timeout net.Error
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		return outcome{fate: refused}, nil
	case errors.As(err, &timeout) && timeout.Timeout():
		return outcome{fate: dropped}, nil
	case err != nil:
		return outcome{}, err
	}
	endpoint, source, _ := strings.Cut(strings.TrimSpace(line), " ")
	at, err := netip.ParseAddrPort(endpoint)
	if err != nil {
		return outcome{}, fmt.Errorf("answer %q: %w", line, err)
	}
	seen, err := netip.ParseAddrPort(source)
	if err != nil {
		return outcome{}, fmt.Errorf("answer %q: %w", line, err)
	}
	return outcome{fate: served, endpoint: at.Addr(), source: seen.Addr().Unmap()}, nil
}

func (w *World) exchange(a attempt, limit time.Duration) (string, error) {
	var c net.Conn
	var err error
	ns := w.spaces[a.from]
	switch a.protocol {
	case proxier.SCTP:
		c, err = ns.DialSCTP(w.clientPort(), a.to, limit)
	case proxier.UDP:
		c, err = w.dial(ns, &net.Dialer{LocalAddr: &net.UDPAddr{Port: w.clientPort()}}, "udp", a.to)
	default:
		c, err = w.dial(ns, &net.Dialer{LocalAddr: &net.TCPAddr{Port: w.clientPort()}, Timeout: limit}, "tcp", a.to)
	}
	if err != nil {
		return "", err
	}
	defer c.Close()
	if a.protocol == proxier.UDP {
		return ask(c, limit)
	}
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		return "", err
	}
	return bufio.NewReader(c).ReadString('\n')
}

// clientPort returns a port that no client in this World has had: what the kernel
// remembers of an earlier connection, one that was refused or dropped included, would
// decide about that of the next. To forget is not for a Backend. It is none that a
// server has, either.
func (w *World) clientPort() int {
	const first, last = 33000, 65000
	return int(first + w.clients.Add(1)%(last-first))
}

func (w *World) dial(ns *netnstest.NS, d *net.Dialer, network string, to netip.AddrPort) (net.Conn, error) {
	var c net.Conn
	err := ns.Do(func() error {
		var err error
		c, err = d.Dial(network, to.String())
		return err
	})
	return c, err
}

// ask sends a datagram, several times: it, or the ICMP error that answers it, may get
// lost.
func ask(c net.Conn, limit time.Duration) (string, error) {
	const tries = 4
	answer := make([]byte, 256)
	var err error
	for range tries {
		// A datagram that the node itself does not let out: whether its sender is told
		// more than that shows when it reads.
		if _, err := io.WriteString(c, "?"); err != nil && !errors.Is(err, unix.EPERM) {
			return "", err
		}
		if err := c.SetReadDeadline(time.Now().Add(limit / tries)); err != nil {
			return "", err
		}
		var n int
		n, err = c.Read(answer)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return string(answer[:n]), err
		}
	}
	return "", err
}
