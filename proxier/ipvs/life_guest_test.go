package ipvs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
)

// watch runs Watch until the test ends, and tells by the channel what it tells.
func watch(t *testing.T, b *Backend) (drifted <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	told, done := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		done <- b.Watch(ctx, func() {
			select {
			case told <- struct{}{}:
			default:
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return told
}

// A connection outlives the removal of its endpoint, new ones go elsewhere, and the endpoint
// goes when the connection has ended. Meanwhile others come and go, and no connection fails.
func TestInGuestEndpointsDrain(t *testing.T) {
	inGuest(t)
	s := newSite(t)
	b := s.backend(t, Config{CheckInterval: time.Second})
	reset(t, b, service(proxier.TCP, proxier.Balance{}, 0, 1, 2))
	drifted := watch(t, b)
	var kept *talk
	for kept == nil || kept.with != podAddr(0) {
		c, err := s.connect(t, vip+":80")
		if err != nil {
			t.Fatal(err)
		}
		kept = c
	}
	apply(t, b, service(proxier.TCP, proxier.Balance{}, 1, 2))
	for round := range 30 {
		apply(t, b, service(proxier.TCP, proxier.Balance{}, [][]int{{1}, {2}, {1, 2}}[round%3]...))
		for range 3 {
			c, err := s.connect(t, vip+":80")
			if err != nil {
				t.Fatalf("round %d: a new connection fails: %v", round, err)
			}
			if c.with == podAddr(0) {
				t.Errorf("round %d: a new connection goes to an endpoint that drains", round)
			}
			if err := c.works(); err != nil {
				t.Errorf("round %d: a new connection breaks: %v", round, err)
			}
			_ = c.Close()
		}
		if err := kept.works(); err != nil {
			t.Fatalf("round %d: the connection that was there breaks: %v", round, err)
		}
	}
	vs := keyOf(proxier.TCP, vip+":80")
	if w, there := s.realServers(t, vs)[podAddr(0)]; !there || w != 0 {
		t.Errorf("weight of the endpoint with a connection = %d, %v, want it there with 0", w, there)
	}
	// The kernel remembers a connection for two minutes after its end, and one that is reset
	// for ten seconds.
	if err := kept.Conn.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	_ = kept.Close()
	eventually(t, "the endpoint has drained and goes", func() bool {
		_, there := s.realServers(t, vs)[podAddr(0)]
		return !there
	})
	select {
	case <-drifted:
		t.Error("Watch tells of a change by somebody else")
	default:
	}
}

// An endpoint that is ready again keeps the connections with which it drained.
func TestInGuestEndpointComesBack(t *testing.T) {
	inGuest(t)
	s := newSite(t)
	b := s.backend(t, Config{})
	reset(t, b, service(proxier.TCP, proxier.Balance{}, 0))
	watch(t, b)
	c, err := s.connect(t, vip+":80")
	if err != nil {
		t.Fatal(err)
	}
	for _, pods := range [][]int{{1}, {0, 1}, {1}, {0}} {
		apply(t, b, service(proxier.TCP, proxier.Balance{}, pods...))
		if err := c.works(); err != nil {
			t.Fatalf("with the endpoints %v: %v", pods, err)
		}
	}
}

func TestInGuestDatagramsLeaveAGoneEndpoint(t *testing.T) {
	inGuest(t)
	s := newSite(t)
	b := s.backend(t, Config{})
	reset(t, b, service(proxier.UDP, proxier.Balance{}, 0))
	watch(t, b)
	c, err := s.client.Dial("udp", vip+":80", patience)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, pod := range []int{0, 1, 2, 0} {
		apply(t, b, service(proxier.UDP, proxier.Balance{}, pod))
		eventually(t, "the flow reaches "+podAddr(pod), func() bool {
			_, _ = c.Write([]byte("?"))
			_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
			buf := make([]byte, 64)
			n, err := c.Read(buf)
			return err == nil && strings.TrimSpace(string(buf[:n])) == podAddr(pod)
		})
	}
}

// listed is what the node has, for people.
func (s *site) listed(t *testing.T) string {
	t.Helper()
	out, err := s.node.Run("sh", "-c", "ipvsadm -S -n; ipvsadm -l --timeout; ip -o addr; sysctl net.ipv4.conf.all.arp_ignore net.ipv4.conf.all.arp_announce")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (s *site) script(t *testing.T, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if _, err := s.node.Run("sh", "-c", line); err != nil {
			t.Fatal(err)
		}
	}
}

// A process that starts over what another has left interrupts nothing, repairs what is
// wrong, and removes what is not wanted; one that cleans up leaves what is somebody else's.
func TestInGuestStartsOverWhatIsThere(t *testing.T) {
	inGuest(t)
	s := newSite(t)
	nodePort := portOf4("np", proxier.TCP, at(proxier.NodePort, "", 30080), to(podAddr(2)))
	reset(t, s.backend(t, Config{}), service(proxier.TCP, proxier.Balance{}, 0, 1), nodePort,
		portOf4("old", proxier.UDP, at(proxier.ClusterIP, "10.96.0.11", 53), to(podAddr(2))))
	if c, err := s.connect(t, "10.1.0.1:30080"); err != nil || c.with != podAddr(2) {
		t.Fatalf("connect to the node port: %v", err)
	}
	kept, err := s.connect(t, vip+":80")
	if err != nil {
		t.Fatal(err)
	}
	s.script(t, "ipvsadm -A -t 203.0.113.1:80 -s rr",
		"ipvsadm -e -t 10.96.0.10:80 -r "+podAddr(1)+" -m -w 0", "ipvsadm -a -t 10.96.0.10:80 -r 10.2.9.9:80 -m -w 0")
	second := s.backend(t, Config{Timeouts: Timeouts{TCP: 700 * time.Second, UDP: 77 * time.Second}, StrictARP: true})
	reset(t, second, service(proxier.TCP, proxier.Balance{}, 0, 1), nodePort)
	if err := kept.works(); err != nil {
		t.Errorf("the connection breaks: %v", err)
	}
	out := s.listed(t)
	for _, there := range []string{
		"-a -t 10.96.0.10:80 -r 10.2.1.2:8080 -m -w 1", "-A -t 10.1.0.1:30080 -s rr", "-A -t 203.0.113.1:80", "10.96.0.10/32",
		"tcp tcpfin udp): 700 120 77", "arp_ignore = 1", "arp_announce = 2",
	} {
		if !strings.Contains(out, there) {
			t.Errorf("after the start there is no %q in\n%s", there, out)
		}
	}
	for _, gone := range []string{"10.2.9.9", "10.96.0.11"} {
		if strings.Contains(out, gone) {
			t.Errorf("after the start %s is left in\n%s", gone, out)
		}
	}
	if err := s.backend(t, Config{}).Cleanup(t.Context()); err != nil {
		t.Fatal(err)
	}
	out = s.listed(t)
	if strings.Contains(out, DefaultDevice) || strings.Contains(out, "10.96.0.10") || strings.Contains(out, "30080") {
		t.Errorf("after Cleanup:\n%s", out)
	}
	if !strings.Contains(out, "-A -t 203.0.113.1:80") {
		t.Errorf("somebody else's virtual server is gone:\n%s", out)
	}
}

// TestInGuestWatchNotices changes what the Backend made behind its back.
func TestInGuestWatchNotices(t *testing.T) {
	inGuest(t)
	s := newSite(t)
	b := s.backend(t, Config{CheckInterval: 100 * time.Millisecond})
	reset(t, b, service(proxier.TCP, proxier.Balance{}, 0))
	drifted := watch(t, b)
	for _, line := range []string{
		"ipvsadm -E -t 10.96.0.10:80 -s lc", "ipvsadm -d -t 10.96.0.10:80 -r " + podAddr(0), "ipvsadm -C",
		"ip addr del 10.96.0.10/32 dev kube-ipvs0", "ip link del kube-ipvs0",
	} {
		s.script(t, line)
		select {
		case <-drifted:
		case <-time.After(patience):
			t.Fatalf("nobody notices %s", line)
		}
		reset(t, b, service(proxier.TCP, proxier.Balance{}, 0))
		select {
		case <-drifted: // told before the Reset
		default:
		}
		if _, err := s.connect(t, vip+":80"); err != nil {
			t.Errorf("after %s and a Reset: %v", line, err)
		}
	}
}

// TestInGuestDevice binds addresses of both families, which the kernel takes for its own.
func TestInGuestDevice(t *testing.T) {
	inGuest(t)
	ns := netnstest.New(t)
	netnstest.Address(t, ns, "lo", "10.0.0.2/32")
	d, err := dialDevice(ns.Path(), DefaultDevice)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	ctx := t.Context()
	// Somebody else's device of this name, as kube-proxy leaves it.
	ns.IP(t, "link", "add", DefaultDevice, "type", "dummy")
	if state, err := d.look(ctx); err != nil || !state.exists || state.ours {
		t.Errorf("look at a device of somebody else = %+v, %v", state, err)
	}
	addrs := []netip.Addr{netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("fd00:96::1")}
	for range 2 { // the second time all is there
		if err := errors.Join(d.ensure(ctx), d.bind(ctx, addrs)); err != nil {
			t.Fatal(err)
		}
	}
	// It is taken over when what stood beside it is gone, and not before.
	if state, err := d.look(ctx); err != nil || state.ours {
		t.Errorf("look before it is claimed = %+v, %v", state, err)
	}
	if err := d.claim(ctx); err != nil {
		t.Fatal(err)
	}
	state, err := d.look(ctx)
	if err != nil || !state.exists || !state.ours || fmt.Sprint(state.bound) != fmt.Sprint(addrs) ||
		fmt.Sprint(state.elsewhere) != "[10.0.0.2 127.0.0.1 ::1]" {
		t.Errorf("look = %+v, %v", state, err)
	}
	for _, a := range addrs {
		eventually(t, a.String()+" is local", func() bool {
			out, err := ns.Run("ip", "route", "get", a.String())
			return err == nil && strings.HasPrefix(out, "local ")
		})
	}
	if err := errors.Join(d.unbind(ctx, addrs), d.unbind(ctx, addrs)); err != nil {
		t.Errorf("unbind twice: %v", err)
	}
	if state, err := d.look(ctx); err != nil || len(state.bound) > 0 {
		t.Errorf("after unbind: %+v, %v", state, err)
	}
	if err := errors.Join(d.remove(ctx), d.remove(ctx)); err != nil {
		t.Errorf("remove twice: %v", err)
	}
	if state, err := d.look(ctx); err != nil || state.exists {
		t.Errorf("after remove: %+v, %v", state, err)
	}
}
