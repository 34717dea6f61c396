//go:build linux

package nftables

import (
	"net/netip"
	"testing"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
)

// both are the options of a ServicePort with endpoints on this node and on
// another, in the two families.
var (
	both4 = []option{on("10.244.1.11:8080", "10.244.1.12:8080"), far("10.244.2.15:8080")}
	both6 = []option{on("[fd00:1::11]:8080", "[fd00:1::12]:8080"), far("[fd00:2::15]:8080")}
)

func serveBoth(tb testing.TB, w *world) {
	tb.Helper()
	for addr, ns := range map[string]*netnstest.NS{
		"10.244.1.11:8080": w.pod1, "10.244.1.12:8080": w.pod2, "10.244.2.15:8080": w.remote,
		"[fd00:1::11]:8080": w.pod1, "[fd00:1::12]:8080": w.pod2, "[fd00:2::15]:8080": w.remote,
	} {
		serve(tb, ns, addr)
	}
}

func TestKernelClusterIPSpreadsConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	serveBoth(t, w)
	b := newBackend(t, w.node, Config{Local: podNet()})
	reset(t, b,
		service("web", proxier.TCP, "10.96.0.10:80", both4...),
		service("web", proxier.UDP, "10.96.0.10:80", both4...),
		service("web", proxier.TCP, "[fd00:96::10]:80", both6...),
		service("web", proxier.UDP, "[fd00:96::10]:80", both6...))
	want4 := []string{"10.244.1.11:8080", "10.244.1.12:8080", "10.244.2.15:8080"}
	want6 := []string{"[fd00:1::11]:8080", "[fd00:1::12]:8080", "[fd00:2::15]:8080"}
	for _, tt := range []struct {
		name, network, addr string
		want                []string
	}{
		{"TCP over IPv4", "tcp", "10.96.0.10:80", want4},
		{"UDP over IPv4", "udp", "10.96.0.10:80", want4},
		{"TCP over IPv6", "tcp", "[fd00:96::10]:80", want6},
		{"UDP over IPv6", "udp", "[fd00:96::10]:80", want6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for from, ns := range map[string]*netnstest.NS{"client": w.client, "node": w.node, "pod": w.pod1} {
				wantEven(t, from, spread(t, ns, tt.network, tt.addr, 90), tt.want)
			}
		})
	}
}

// wantEven checks that the endpoints of want, and no others, got their share.
func wantEven(t *testing.T, from string, got map[string]int, want []string) {
	t.Helper()
	total := 0
	for _, n := range got {
		total += n
	}
	// With 90 connections and 3 endpoints the count is Binomial(90, 1/3): below 9
	// less than once in ten million runs.
	least := total / len(want) * 3 / 10
	for _, ep := range want {
		if got[ep] < least {
			t.Errorf("from %s: answers = %v; want at least %d of %s", from, got, least, ep)
		}
	}
	if len(got) != len(want) {
		t.Errorf("from %s: answers = %v; want only %v", from, got, want)
	}
}

func TestKernelMasqueradeOfConnectionsToAClusterIP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	serveBoth(t, w)
	const vip, vip6 = "10.96.0.10:80", "[fd00:96::10]:80"
	hidden, hidden6 := netip.MustParseAddr("10.244.1.1"), netip.MustParseAddr("fd00:1::1")
	client, client6 := netip.MustParseAddr("198.51.100.7"), netip.MustParseAddr("2001:db8:f::7")
	pod, pod6 := netip.MustParseAddr("10.244.1.12"), netip.MustParseAddr("fd00:1::12")
	for _, tt := range []struct {
		name                        string
		cfg                         Config
		client, client6, pod2, pod6 netip.Addr
	}{
		{"nothing detected", Config{}, client, client6, pod, pod6},
		{"cluster CIDRs", Config{Local: podNet()}, hidden, hidden6, pod, pod6},
		{"bridge interface", Config{Local: Local{BridgeInterface: "br-pods"}}, hidden, hidden6, pod, pod6},
		{"interface name prefix", Config{Local: Local{InterfaceNamePrefix: "br-"}}, hidden, hidden6, pod, pod6},
		{"everything", Config{MasqueradeAll: true}, hidden, hidden6, hidden, hidden6},
		{
			"another bit of the mark",
			Config{MasqueradeAll: true, MasqueradeBit: new(31)},
			hidden, hidden6, hidden, hidden6,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBackend(t, w.node, tt.cfg)
			reset(t, b,
				service("web", proxier.TCP, vip, on("10.244.1.11:8080")),
				service("web", proxier.TCP, vip6, on("[fd00:1::11]:8080")))
			for _, flow := range []struct {
				from *netnstest.NS
				addr string
				want netip.Addr
			}{
				{w.client, vip, tt.client},
				{w.client, vip6, tt.client6},
				{w.pod2, vip, tt.pod2},
				{w.pod2, vip6, tt.pod6},
			} {
				if got := ask(t, flow.from, "tcp", flow.addr); got.source != flow.want {
					t.Errorf("endpoint of %s sees %v, want %v", flow.addr, got, flow.want)
				}
			}
		})
	}
}

// An interface that does not exist yet is no obstacle: the rules compare names.
func TestKernelInterfacesOfPodsMayComeLater(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		local Local
		iface string
	}{
		{"prefix", Local{InterfaceNamePrefix: "later"}, "later0"},
		{"prefix, name with a dot", Local{InterfaceNamePrefix: "later"}, "later.1"},
		{"prefix with a hyphen", Local{InterfaceNamePrefix: "later-"}, "later-1"},
		{"bridge", Local{BridgeInterface: "br-later"}, "br-later"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			serveBoth(t, w)
			b := newBackend(t, w.node, Config{Local: tt.local})
			reset(t, b, service("web", proxier.TCP, "10.96.0.90:80", far("10.244.2.15:8080")))
			pod := netnstest.New(t)
			if tt.local.BridgeInterface != "" {
				netnstest.Bridge(t, netnstest.End{NS: w.node, Name: tt.iface, Addrs: []string{"10.244.3.1/24"}})
				netnstest.Veth(t,
					netnstest.End{NS: w.node, Name: "port0", Bridge: tt.iface},
					netnstest.End{NS: pod, Name: "eth0", Addrs: []string{"10.244.3.90/24"}})
			} else {
				netnstest.Veth(t,
					netnstest.End{NS: w.node, Name: tt.iface, Addrs: []string{"10.244.3.1/24"}},
					netnstest.End{NS: pod, Name: "eth0", Addrs: []string{"10.244.3.90/24"}})
			}
			pod.IP(t, "route", "add", "default", "via", "10.244.3.1")
			if got := ask(t, pod, "tcp", "10.96.0.90:80"); got.source != netip.MustParseAddr("10.244.3.90") {
				t.Errorf("endpoint sees %v, want the pod's own address", got)
			}
			if got := ask(t, w.client, "tcp", "10.96.0.90:80"); got.source != netip.MustParseAddr("10.244.2.1") {
				t.Errorf("endpoint sees %v, want the node's address in the place of the client's", got)
			}
		})
	}
}
