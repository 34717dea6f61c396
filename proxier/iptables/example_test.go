package iptables_test

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/iptables"
)

// webService is a Service with one endpoint.
func webService() *proxier.ServicePort {
	return &proxier.ServicePort{
		Key: proxier.Key{
			PortName: proxier.PortName{Namespace: "default", Name: "web", Protocol: proxier.TCP},
			Family:   proxier.IPv4,
		},
		Frontends: []proxier.Frontend{
			{Kind: proxier.ClusterIP, Addr: netip.MustParseAddr("10.96.0.10"), Port: 80},
		},
		Cluster:      []proxier.Endpoint{{Addr: netip.MustParseAddrPort("10.244.1.11:8080"), Local: true}},
		HasEndpoints: true,
	}
}

// A Backend is given the whole state once, and then what changes. A
// proxier.Proxier does this; here it is done by hand.
func Example() {
	program := func(ctx context.Context) error {
		backend, err := iptables.New(iptables.Config{
			Local:   iptables.Local{BridgeInterface: "cni0"},
			Problem: func(p iptables.Problem) { fmt.Println("not programmed:", p) },
		})
		if err != nil {
			return err
		}
		web := webService()
		if err := backend.Reset(ctx, &proxier.State{Ports: []*proxier.ServicePort{web}}); err != nil {
			return err
		}
		return backend.Apply(ctx, proxier.Delta{Remove: []proxier.Key{web.Key}})
	}
	_ = program // It needs CAP_NET_ADMIN.
}

// Rules shows what a ServicePort has, without looking at the kernel.
func ExampleBackend_Rules() {
	backend, err := iptables.New(iptables.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, rule := range backend.Rules(proxier.Network{}, webService()) {
		fmt.Println(rule)
	}
	// Output:
	// nat -A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment "default/web cluster IP" -m tcp --dport 80 -j KUBE-SVC-LOLE4ISW44XBNF3G
	// nat -A KUBE-SVC-LOLE4ISW44XBNF3G -m comment --comment "default/web -> 10.244.1.11:8080" -j KUBE-SEP-QBMWJ7Q236QVVXD6
	// nat -A KUBE-SEP-QBMWJ7Q236QVVXD6 -s 10.244.1.11/32 -m comment --comment "default/web" -j KUBE-MARK-MASQ
	// nat -A KUBE-SEP-QBMWJ7Q236QVVXD6 -p tcp -m comment --comment "default/web" -m tcp -j DNAT --to-destination 10.244.1.11:8080
}
