package proxier_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/proxier"
)

func TestExplain(t *testing.T) {
	here := proxier.Endpoint{Addr: netip.MustParseAddrPort("10.244.1.1:80"), Local: true}
	there := proxier.Endpoint{Addr: netip.MustParseAddrPort("10.244.2.1:80")}
	key := func(name string) proxier.Key {
		return proxier.Key{PortName: proxier.PortName{Namespace: "ns", Name: name, Protocol: proxier.TCP}, Family: proxier.IPv4}
	}
	addr := netip.MustParseAddr
	s := &proxier.State{
		Network: proxier.Network{
			NodeAddrs: []netip.Addr{addr("10.0.0.2")}, ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")},
		},
		Ports: []*proxier.ServicePort{
			{
				Key: key("lb"), HasEndpoints: true, ExternalLocal: true, Cluster: []proxier.Endpoint{here, there},
				SourceRanges: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")},
				Frontends: []proxier.Frontend{
					{Kind: proxier.ClusterIP, Addr: addr("10.96.0.10"), Port: 80},
					{Kind: proxier.NodePort, Port: 30080},
					{Kind: proxier.LoadBalancer, Addr: addr("192.0.2.10"), Port: 80},
				},
			},
			{Key: key("none"), Frontends: []proxier.Frontend{{Kind: proxier.ClusterIP, Addr: addr("10.96.0.11"), Port: 80}}},
		},
	}
	for at, want := range map[string]string{
		"10.96.0.10:80": "ClusterIP 10.96.0.10:80 of Service ns/lb TCP IPv4\n" +
			"  from anywhere: balanced: all endpoints that topology and readiness admit\n" +
			"    10.244.1.1:80(here), 1 in 2\n    10.244.2.1:80, 1 in 2\n",
		"192.0.2.10:80": "LoadBalancer 192.0.2.10:80 of Service ns/lb TCP IPv4\n" +
			"  from pods and processes of this node, a source in [198.51.100.0/24]: balanced: externalTrafficPolicy Local does not hold for them\n" +
			"    10.244.1.1:80(here), 1 in 2\n    10.244.2.1:80, 1 in 2\n" +
			"  from elsewhere, a source in [198.51.100.0/24]: dropped: externalTrafficPolicy is Local: endpoints of this node alone, and there is none\n" +
			"  from other sources: dropped: loadBalancerSourceRanges does not admit them\n",
		"10.0.0.2:30080": "NodePort 30080 of Service ns/lb TCP IPv4\n" +
			"  from pods and processes of this node: balanced: externalTrafficPolicy Local does not hold for them\n" +
			"    10.244.1.1:80(here), 1 in 2\n    10.244.2.1:80, 1 in 2\n" +
			"  from elsewhere: dropped: externalTrafficPolicy is Local: endpoints of this node alone, and there is none\n",
		"10.96.0.11:80":  "ClusterIP 10.96.0.11:80 of Service ns/none TCP IPv4\n  from anywhere: refused: there is no ready endpoint on any node\n",
		"10.96.0.10:443": "  from anywhere: refused: 10.96.0.10 is a cluster IP of ns/lb, which has no TCP port 443\n",
		"10.96.9.9:80":   "  from anywhere: dropped: no Service has this address of a range of cluster IPs\n",
		"10.0.0.3:30080": "  from anywhere: routed: 30080 is the node port of ns/lb, but node ports do not answer at 10.0.0.3\n",
		"10.0.0.3:30081": "  from anywhere: routed: it is no address of a Service\n",
	} {
		got := proxier.Explain(s, proxier.Query{Addr: netip.MustParseAddrPort(at), Protocol: proxier.TCP}).String()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", at, diff)
		}
	}
}

// A mode without rules for what is not served does not refuse or drop it.
func TestExplainWhereNothingGuardsClusterIPs(t *testing.T) {
	s := &proxier.State{
		Network: proxier.Network{ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}},
		Ports: []*proxier.ServicePort{{
			Key:       proxier.Key{PortName: proxier.PortName{Namespace: "ns", Name: "web", Protocol: proxier.TCP}, Family: proxier.IPv4},
			Frontends: []proxier.Frontend{{Kind: proxier.ClusterIP, Addr: netip.MustParseAddr("10.96.0.10"), Port: 80}},
		}},
	}
	for at, verdicts := range map[string][2]string{"10.96.0.10:443": {"refused", "routed"}, "10.96.9.9:80": {"dropped", "routed"}, "10.96.0.10:80": {"refused", "refused"}} {
		for i, unguarded := range []bool{false, true} {
			q := proxier.Query{Addr: netip.MustParseAddrPort(at), Protocol: proxier.TCP, Unguarded: unguarded}
			if got := proxier.Explain(s, q).Ways[0].Verdict; got != verdicts[i] {
				t.Errorf("%s, unguarded %v: %s, want %s", at, unguarded, got, verdicts[i])
			}
		}
	}
}

// Node ports answer where the rules say, and not at the primary addresses alone.
func TestExplainNodePortAddresses(t *testing.T) {
	s := &proxier.State{
		Network: proxier.Network{NodeAddrs: []netip.Addr{netip.MustParseAddr("10.0.0.2")}},
		Ports: []*proxier.ServicePort{{
			Key:       proxier.Key{PortName: proxier.PortName{Namespace: "ns", Name: "web", Protocol: proxier.TCP}, Family: proxier.IPv4},
			Frontends: []proxier.Frontend{{Kind: proxier.NodePort, Port: 30080}},
		}},
	}
	at := []netip.Addr{netip.MustParseAddr("10.0.0.3"), netip.MustParseAddr("10.0.0.4")}
	for addr, want := range map[string]bool{"10.0.0.2": false, "10.0.0.3": true, "10.0.0.4": true, "::ffff:10.0.0.3": true} {
		q := proxier.Query{Addr: netip.AddrPortFrom(netip.MustParseAddr(addr), 30080), Protocol: proxier.TCP, NodePortAddrs: at}
		if got := proxier.Explain(s, q); (got.Port != nil) != want {
			t.Errorf("%s: a node port answers: %v, want %v", addr, got.Port != nil, want)
		}
	}
}
