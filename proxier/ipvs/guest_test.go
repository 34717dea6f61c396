package ipvs

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
)

// inGuest skips tests that need a kernel with IPVS, as guests of hack/vm have.
func inGuest(t *testing.T) {
	t.Helper()
	if os.Getenv("NODEKIT_VM") == "" {
		t.Skip("runs in a guest of hack/vm: make test-guest, make test-vm")
	}
}

// inQemu skips tests that need nf_tables for IP, too, which user-mode Linux lacks.
func inQemu(t *testing.T) {
	t.Helper()
	if !strings.HasPrefix(os.Getenv("NODEKIT_VM"), "qemu") {
		t.Skip("runs in a guest of hack/vm with qemu: make test-vm")
	}
}

// patience is for the slowest engine on a busy machine.
const patience = 2 * time.Minute

// site is a node with three pods and a client, each a network namespace:
//
//	client 10.1.0.2 ── node ── 10.2.0.2, 10.2.1.2, 10.2.2.2
//	client fd00:1::2 ─ node ── fd00:2::2, fd00:2:1::2, fd00:2:2::2
type site struct {
	node, client *netnstest.NS
	pods         [3]*netnstest.NS
	rules        *fakeRules
	// spreads counts Services of spread.
	spreads uint16
}

func podAddr(i int) string { return fmt.Sprintf("10.2.%d.2:8080", i) }

func podAddr6(i int) string { return fmt.Sprintf("[fd00:2:%d::2]:8080", i) }

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{node: netnstest.New(t), client: netnstest.New(t), rules: &fakeRules{elements: map[element]bool{}}}
	s.node.Forward(t)
	netnstest.Veth(t,
		netnstest.End{NS: s.node, Name: "client", Addrs: []string{"10.1.0.1/24", "fd00:1::1/64"}},
		netnstest.End{NS: s.client, Name: "eth0", Addrs: []string{"10.1.0.2/24", "fd00:1::2/64"}})
	s.client.IP(t, "route", "add", "default", "via", "10.1.0.1")
	s.client.IP(t, "-6", "route", "add", "default", "via", "fd00:1::1")
	for i := range 3 {
		pod := netnstest.New(t)
		netnstest.Veth(t,
			netnstest.End{NS: s.node, Name: fmt.Sprintf("pod%d", i), Addrs: []string{fmt.Sprintf("10.2.%d.1/24", i), fmt.Sprintf("fd00:2:%d::1/64", i)}},
			netnstest.End{NS: pod, Name: "eth0", Addrs: []string{fmt.Sprintf("10.2.%d.2/24", i), fmt.Sprintf("fd00:2:%d::2/64", i)}})
		pod.IP(t, "route", "add", "default", "via", fmt.Sprintf("10.2.%d.1", i))
		pod.IP(t, "-6", "route", "add", "default", "via", fmt.Sprintf("fd00:2:%d::1", i))
		answerAt(t, pod, podAddr(i))
		answerAt(t, pod, podAddr6(i))
		s.pods[i] = pod
	}
	return s
}

// answerAt answers at addr: its own address in a line, and then whatever is sent.
func answerAt(t *testing.T, ns *netnstest.NS, addr string) {
	t.Helper()
	l, err := ns.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	u, err := ns.ListenPacket("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	listeners := []net.Listener{l}
	if netnstest.HasSCTP() {
		l, err := ns.ListenSCTP(netip.MustParseAddrPort(addr))
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
	}
	var wg sync.WaitGroup
	for _, l := range listeners {
		wg.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				wg.Go(func() {
					defer c.Close()
					fmt.Fprintln(c, addr)
					_, _ = io.Copy(c, c)
				})
			}
		})
	}
	wg.Go(func() {
		buf := make([]byte, 64)
		for {
			_, from, err := u.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = u.WriteTo([]byte(addr+"\n"), from)
		}
	})
	t.Cleanup(func() {
		for _, l := range listeners {
			_ = l.Close()
		}
		_ = u.Close()
		wg.Wait()
	})
}

// backend returns a Backend of the node with its own IPVS and device, and with tables in
// memory: the kernel of user-mode Linux has none.
func (s *site) backend(t *testing.T, cfg Config) *Backend {
	t.Helper()
	cfg.NetNS = s.node.Path()
	if cfg.Families == nil {
		cfg.Families = []proxier.Family{proxier.IPv4}
	}
	if cfg.Problem == nil {
		cfg.Problem = func(p Problem) { t.Errorf("problem: %s", p) }
	}
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b.open = func() (*kernel, error) {
		k, err := b.dial()
		if err == nil {
			k.rules = s.rules
		}
		return k, err
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// talk is an open connection through the Service.
type talk struct {
	net.Conn
	r *bufio.Reader
	// with is the endpoint.
	with string
}

// connect opens a connection from the client.
func (s *site) connect(t *testing.T, to string) (*talk, error) {
	t.Helper()
	return s.connectBy(t, proxier.TCP, to)
}

// connectBy opens a connection or, by UDP, sends a datagram.
func (s *site) connectBy(t *testing.T, proto proxier.Protocol, to string) (*talk, error) {
	t.Helper()
	var c net.Conn
	var err error
	switch proto {
	case proxier.SCTP:
		c, err = s.client.DialSCTP(0, netip.MustParseAddrPort(to), patience)
	case proxier.UDP:
		if c, err = s.client.Dial("udp", to, patience); err == nil {
			_, err = io.WriteString(c, "?")
		}
	default:
		c, err = s.client.Dial("tcp", to, patience)
	}
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	r := bufio.NewReader(c)
	line, err := r.ReadString('\n')
	return &talk{Conn: c, r: r, with: strings.TrimSpace(line)}, err
}

// works returns why the connection does not answer any more, nil if it does.
func (c *talk) works() error { return c.answers(patience) }

// answers is works for an answer that is waited for no longer than limit.
func (c *talk) answers(limit time.Duration) error {
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, "ping\n"); err != nil {
		return err
	}
	line, err := c.r.ReadString('\n')
	if err == nil && line != "ping\n" {
		err = fmt.Errorf("answer %q", line)
	}
	return err
}

const vip = "10.96.0.10"

// service is the Service of some of the pods; the first is of this node.
func service(proto proxier.Protocol, balance proxier.Balance, pods ...int) *proxier.ServicePort {
	var addrs []string
	for _, i := range pods {
		addr := podAddr(i)
		if i == 0 {
			addr += "(here)"
		}
		addrs = append(addrs, addr)
	}
	return portOf4("web", proto, at(proxier.ClusterIP, vip, 80), to(addrs...), func(p *proxier.ServicePort) { p.Balance = balance })
}

// realServers returns those of a virtual server with their weights.
func (s *site) realServers(t *testing.T, k serverKey) map[string]uint16 {
	t.Helper()
	c, err := dialIPVS(s.node.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	found, err := c.targets(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]uint16{}
	for _, f := range found {
		out[f.at.String()] = f.weight
	}
	return out
}

// eventually waits until f is true.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !f(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %v", what, patience)
		}
	}
}
