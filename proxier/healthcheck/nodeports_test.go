package healthcheck

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/proxier"
)

var _ proxier.Follower = (*NodePorts)(nil)

// freePort returns a port that nobody listens to.
func freePort(t *testing.T) uint16 {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return netip.MustParseAddrPort(l.Addr().String()).Port()
}

func healthPort(name, port string, health uint16, local ...string) *proxier.ServicePort {
	p := &proxier.ServicePort{
		Key: proxier.Key{
			PortName: proxier.PortName{Namespace: "ns", Name: name, Port: port, Protocol: proxier.TCP}, Family: proxier.IPv4,
		},
		HealthCheckNodePort: health, ExternalLocal: true, HasEndpoints: true,
	}
	for _, a := range local {
		p.Local = append(p.Local, proxier.Endpoint{Addr: netip.MustParseAddrPort(a), Local: true})
	}
	return p
}

// reply is what a load balancer sees.
type reply struct {
	Code   int
	Weight string
	Body   answerBody
}

// ask returns what port answers, once it accepts connections.
func ask(t *testing.T, port uint16) reply {
	t.Helper()
	url := "http://" + netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port).String() + "/any"
	for range 500 {
		resp, err := http.Get(url)
		if errors.Is(err, syscall.ECONNREFUSED) {
			time.Sleep(10 * time.Millisecond) //nolint:forbidigo // a real listener opens
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		r := reply{Code: resp.StatusCode, Weight: resp.Header.Get("X-Load-Balancing-Endpoint-Weight")}
		if err := json.NewDecoder(resp.Body).Decode(&r.Body); err != nil {
			t.Fatal(err)
		}
		return r
	}
	t.Fatalf("nobody listens to %d", port)
	return reply{}
}

func TestNodePortsAnswerForLocalEndpoints(t *testing.T) {
	var sick atomic.Bool
	n, err := NewNodePorts(NodePortsConfig{
		Healthy: func() bool { return !sick.Load() }, Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run() = %v", err)
		}
	}()
	port := freePort(t)
	http.DefaultTransport.(*http.Transport).DisableKeepAlives = true
	want := func(what string, code, count int, healthy bool) {
		t.Helper()
		weight := map[int]string{0: "0", 1: "1", 2: "2"}[count]
		w := reply{Code: code, Weight: weight, Body: answerBody{Service{"ns", "web"}, count, healthy}}
		if diff := cmp.Diff(w, ask(t, port)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	http1, https := healthPort("web", "http", port, "10.0.0.1:80", "10.0.0.2:80"), healthPort("web", "https", port, "10.0.0.1:443")
	n.Reset(&proxier.State{Ports: []*proxier.ServicePort{http1, https, healthPort("other", "", 0, "10.0.0.9:80")}})
	want("two endpoints with two ports", 200, 2, true)
	n.Applied(proxier.Delta{Update: []*proxier.ServicePort{healthPort("web", "http", port)}})
	want("one port without endpoints", 200, 1, true)
	draining := healthPort("web", "https", port, "10.0.0.1:443")
	draining.LocalDraining = true
	n.Applied(proxier.Delta{Update: []*proxier.ServicePort{draining}})
	want("only endpoints that shut down", 503, 0, true)
	n.Applied(proxier.Delta{Update: []*proxier.ServicePort{http1}, Remove: []proxier.Key{https.Key}})
	want("an endpoint is back", 200, 2, true)
	sick.Store(true)
	want("the proxy is sick", 503, 2, false)
	sick.Store(false)

	old := port
	port = freePort(t)
	n.Applied(proxier.Delta{Update: []*proxier.ServicePort{healthPort("web", "http", port, "10.0.0.1:80")}})
	want("another port", 200, 1, true)
	if c, err := net.Dial("tcp4", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), old).String()); err == nil {
		c.Close()
		t.Error("the old port still answers")
	}
}

func TestNodePortsTellOfAPortInUse(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := netip.MustParseAddrPort(taken.Addr().String()).Port()
	told := make(chan Service, 10)
	n, err := NewNodePorts(NodePortsConfig{
		Healthy: func() bool { return true }, Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		Failed: func(s Service, p uint16, err error) {
			if p != port || !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("told of port %d: %v", p, err)
			}
			told <- s
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	n.Reset(&proxier.State{Ports: []*proxier.ServicePort{healthPort("web", "", port)}})
	if s := <-told; s != (Service{"ns", "web"}) {
		t.Errorf("told of %v", s)
	}
	n.Applied(proxier.Delta{Update: []*proxier.ServicePort{healthPort("more", "", port)}})
	if s := <-told; s != (Service{"ns", "more"}) {
		t.Errorf("told again of %v, want more alone", s)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestNodePortsListenWhereNodePortsAnswer(t *testing.T) {
	node := []netip.Addr{netip.MustParseAddr("192.0.2.7")}
	for _, tt := range []struct {
		name   string
		cfg    NodePortsConfig
		family proxier.Family
		want   string
	}{
		{name: "everywhere", family: proxier.IPv4, want: "[0.0.0.0]"},
		{name: "everywhere, IPv6", family: proxier.IPv6, want: "[::]"},
		{name: "primary", cfg: NodePortsConfig{Primary: true}, family: proxier.IPv4, want: "[192.0.2.7]"},
		{name: "no primary of the family", cfg: NodePortsConfig{Primary: true}, family: proxier.IPv6, want: "[::]"},
		{name: "all", cfg: NodePortsConfig{Primary: true, Addresses: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}, family: proxier.IPv4, want: "[0.0.0.0]"},
		{name: "all, IPv6", cfg: NodePortsConfig{Addresses: []netip.Prefix{netip.MustParsePrefix("::/0")}}, family: proxier.IPv6, want: "[::]"},
		{name: "a prefix", cfg: NodePortsConfig{Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, family: proxier.IPv4, want: "[127.0.0.1]"},
	} {
		n := &NodePorts{cfg: tt.cfg, network: proxier.Network{NodeAddrs: node}}
		n.mu.Lock()
		got := n.addrsLocked(tt.family)
		n.mu.Unlock()
		if s := sprint(got); s != tt.want {
			t.Errorf("%s: listens at %s, want %s", tt.name, s, tt.want)
		}
	}
}

// Where the kernel does not have a family there is nothing to listen to.
func TestNodePortsPassOverOtherFamilies(t *testing.T) {
	n, err := NewNodePorts(NodePortsConfig{Healthy: func() bool { return true }, Families: []proxier.Family{proxier.IPv4}})
	if err != nil {
		t.Fatal(err)
	}
	v6 := healthPort("web", "http", 32070)
	v6.Key.Family = proxier.IPv6
	n.Reset(&proxier.State{Ports: []*proxier.ServicePort{healthPort("web", "http", 32070), v6}})
	n.Applied(proxier.Delta{Update: []*proxier.ServicePort{v6}})
	for l := range n.wanted() {
		if l.service.family != proxier.IPv4 || !l.at.Addr().Is4() {
			t.Errorf("it listens at %v for %v", l.at, l.service)
		}
	}
	if len(n.wanted()) != 1 {
		t.Errorf("it listens at %d addresses, want 1", len(n.wanted()))
	}
}

func sprint(addrs []netip.Addr) string {
	s := "["
	for i, a := range addrs {
		if i > 0 {
			s += " "
		}
		s += a.String()
	}
	return s + "]"
}
