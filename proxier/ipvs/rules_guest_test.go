package ipvs

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
)

// TestInQemuNothingElseAnswersAtAddressesOfServices asks a server that listens at all addresses
// of the node: it answers at the node's own, and not at a Service's, unless it is the one that
// load balancers ask.
func TestInQemuNothingElseAnswersAtAddressesOfServices(t *testing.T) {
	inQemu(t)
	s := newSite(t)
	b := s.backend(t, Config{
		Families: []proxier.Family{proxier.IPv4, proxier.IPv6},
		Local:    Local{ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.2.0.0/16"), netip.MustParsePrefix("fd00:2::/32")}},
	})
	b.open = b.dial // with rules
	// Without a route the kernel refuses before any hook.
	s.node.IP(t, "route", "add", "default", "via", "10.1.0.2")
	s.node.IP(t, "-6", "route", "add", "default", "via", "fd00:1::2")
	for _, port := range []string{":9999", ":31000"} {
		l, err := s.node.Listen("tcp", "[::]"+port)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	web := portOf4("web", proxier.TCP, at(proxier.ClusterIP, vip, 80), at(proxier.ExternalIP, "192.0.2.1", 80), at(proxier.LoadBalancer, "192.0.2.2", 80),
		at(proxier.NodePort, "", 30080), to(podAddr(0)+"(here)", podAddr(1)), func(p *proxier.ServicePort) {
			p.ExternalLocal, p.Local = true, endpoints(podAddr(0)+"(here)")
			p.SourceRanges = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}
			p.HealthCheckNodePort = 31000
		})
	web6 := portOf4("web", proxier.TCP, at(proxier.ClusterIP, vip6, 80), at(proxier.LoadBalancer, "2001:db8::2", 80),
		to(podAddr6(0)+"(here)", podAddr6(1)), func(p *proxier.ServicePort) {
			p.Key.Family, p.ExternalLocal, p.Local = proxier.IPv6, true, endpoints(podAddr6(0)+"(here)")
			p.HealthCheckNodePort = 31000
		})
	network := proxier.Network{ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:96::/64")}}
	if err := b.Reset(t.Context(), &proxier.State{Ports: []*proxier.ServicePort{web, web6}, Network: network}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		from *netnstest.NS
		to   string
		want error // context.DeadlineExceeded stands for no answer at all
	}{
		{s.client, vip + ":80", nil},
		{s.client, "192.0.2.1:80", nil},
		{s.client, "192.0.2.2:80", nil},
		{s.client, "10.1.0.1:30080", nil},
		{s.node, vip + ":80", nil},
		{s.client, "10.1.0.1:9999", nil},
		{s.client, vip + ":9999", unix.ECONNREFUSED},
		{s.client, "192.0.2.1:9999", unix.ECONNREFUSED},
		{s.node, "192.0.2.2:9999", unix.ECONNREFUSED},
		{s.client, "10.96.7.7:80", context.DeadlineExceeded},
		{s.client, "192.0.2.2:31000", nil},
		{s.client, vip + ":31000", nil},
		{s.client, "10.1.0.1:31000", nil},
		{s.node, "192.0.2.2:31000", nil},
		{s.client, "[" + vip6 + "]:80", nil},
		{s.client, "[2001:db8::2]:80", nil},
		{s.client, "[fd00:1::1]:9999", nil},
		{s.client, "[" + vip6 + "]:9999", unix.ECONNREFUSED},
		{s.client, "[2001:db8::2]:9999", unix.ECONNREFUSED},
		{s.node, "[2001:db8::2]:9999", unix.ECONNREFUSED},
		{s.client, "[fd00:96::7:7]:80", context.DeadlineExceeded},
		{s.client, "[2001:db8::2]:31000", nil},
		{s.node, "[2001:db8::2]:31000", nil},
	} {
		got := dialPatiently(tt.from, tt.to, tt.want)
		if (got == nil) != (tt.want == nil) || tt.want != nil && !errors.Is(got, tt.want) {
			t.Errorf("connect to %s: %v, want %v", tt.to, got, tt.want)
		}
	}
	if _, err := s.client.Run("busybox", "ping", "-c", "1", "-W", "60", vip); err != nil {
		t.Errorf("a cluster IP does not answer ping: %v", err)
	}
	refusedDatagrams(t, s, vip+":9999", "["+vip6+"]:9999")
	out, err := s.node.Run("nft", "list", "table", "ip", DefaultTable)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"ct state new ip daddr . meta l4proto . th dport @external meta mark set meta mark | 0x00004000", "reject", "masquerade fully-random",
		"ct state new meta l4proto . th dport @health-ports return",
		"192.0.2.2 . tcp . 80 . 10.1.0.0/16", "10.1.0.1 . tcp . 30080 : 0x",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("nft does not list %q in\n%s", want, out)
		}
	}
	if err := b.Cleanup(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out, err := s.node.Run("sh", "-c", "nft list tables; ipvsadm -S -n; ip -o link show type dummy"); err != nil || strings.TrimSpace(out) != "" {
		t.Errorf("after Cleanup: %s, %v", out, err)
	}
}

// refusedDatagrams sends one from the client to each address, of a port where the node listens.
func refusedDatagrams(t *testing.T, s *site, addrs ...string) {
	t.Helper()
	u, err := s.node.ListenPacket("udp", "[::]:9999")
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	for _, to := range addrs {
		c, err := s.client.Dial("udp", to, patience)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("?")); err != nil {
			t.Fatal(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("a datagram to %s: %v, want it refused", to, err)
		}
		_ = c.Close()
	}
}

// dialPatiently connects once, for as long as it takes on a slow machine; where no answer is
// wanted, a short while tells.
func dialPatiently(from *netnstest.NS, to string, want error) error {
	limit := patience
	if errors.Is(want, context.DeadlineExceeded) {
		limit = 3 * time.Second
	}
	c, err := from.Dial("tcp", to, limit)
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return context.DeadlineExceeded
	}
	if err != nil {
		return err
	}
	return c.Close()
}

// An endpoint may be the node itself, and so may be who asks.
func TestInGuestEndpointOnTheNode(t *testing.T) {
	inGuest(t)
	s := newSite(t)
	answerAt(t, s.node, "10.1.0.1:8080")
	b := s.backend(t, Config{})
	reset(t, b, portOf4("web", proxier.TCP, at(proxier.ClusterIP, vip, 80), to("10.1.0.1:8080(here)")))
	for _, from := range []*netnstest.NS{s.client, s.node} {
		c, err := from.Dial("tcp", vip+":80", patience)
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 64)
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		n, err := c.Read(buf)
		if err != nil || strings.TrimSpace(string(buf[:n])) != "10.1.0.1:8080" {
			t.Errorf("answer %q, %v", buf[:n], err)
		}
		_ = c.Close()
	}
}
