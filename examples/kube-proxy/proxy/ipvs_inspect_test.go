package proxy

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nodekit-go/nodekit/proxier"
)

func TestExplanationsOfModeIPVS(t *testing.T) {
	addr := netip.MustParseAddr
	local := []netip.Addr{addr("10.0.0.2"), addr("127.0.0.1"), addr("169.254.1.1")}
	s := &proxier.State{Network: proxier.Network{NodeAddrs: local[:1]}, Ports: []*proxier.ServicePort{{
		Key: proxier.Key{PortName: proxier.PortName{Namespace: "ns", Name: "lb", Protocol: proxier.TCP}, Family: proxier.IPv4},
		Frontends: []proxier.Frontend{
			{Kind: proxier.ClusterIP, Addr: addr("10.96.0.1"), Port: 80},
			{Kind: proxier.ExternalIP, Addr: addr("10.0.0.2"), Port: 80},
			{Kind: proxier.LoadBalancer, Addr: addr("192.0.2.1"), Port: 80},
			{Kind: proxier.NodePort, Port: 30080},
		},
		HasEndpoints: true, Cluster: []proxier.Endpoint{{Addr: netip.MustParseAddrPort("10.244.0.5:8080")}}, HealthCheckNodePort: 31000,
	}}}
	cfg := Config{Proxy: fromFile(t, "mode: ipvs\n")}
	for _, tt := range []struct{ at, verdict, why string }{
		{"192.0.2.1:80", "balanced", ""},
		{"10.0.0.2:30080", "balanced", ""},
		{"192.0.2.1:30080", "refused", "no Service has TCP port 30080 there"},
		{"10.96.0.1:30080", "refused", "no Service has TCP port 30080 there"},
		{"192.0.2.1:22", "refused", "an address of ns/lb"},
		{"192.0.2.1:22/udp", "refused", "no Service has UDP port 22 there"},
		{"192.0.2.1:31000", "routed", "healthCheckNodePort of ns/lb"},
		{"10.96.0.1:31000", "routed", "healthCheckNodePort of ns/lb"},
		{"192.0.2.1:31000/udp", "refused", ""},
		{"10.0.0.2:22", "routed", ""},
		{"169.254.1.1:30080", "routed", "node ports do not answer at 169.254.1.1"},
		{"203.0.113.1:80", "routed", "no address of a Service"},
	} {
		q, err := parseQuery(tt.at)
		if err != nil {
			t.Fatal(err)
		}
		q.NodePortAddrs = nodePortsAt(cfg, local, s.Network)
		got := guarded(proxier.Explain(s, q), s, q, local)
		if len(got.Ways) != 1 || got.Ways[0].Verdict != tt.verdict || !strings.Contains(got.Ways[0].Why, tt.why) {
			t.Errorf("%s: %s, want it %s: %s", tt.at, got, tt.verdict, tt.why)
		}
	}
}

// The addresses of Services are the node's, but not those of its other devices.
func TestAddressesBesideADevice(t *testing.T) {
	loopback := func(addrs []netip.Addr, err error) bool {
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(addrs, netip.Addr.IsLoopback)
	}
	if beside, all := loopback(addrsBeside("nodekit-none")), loopback(localAddrs()); beside != all {
		t.Errorf("beside no device: loopback addresses %v, want %v", beside, all)
	}
	if loopback(addrsBeside("lo")) {
		t.Error("beside lo: there are loopback addresses")
	}
}
