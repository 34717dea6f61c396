package nftables_test

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/nftables"
)

// A Backend is given the whole state once, and then what changes. A
// proxier.Proxier does this; here it is done by hand.
func Example() {
	program := func(ctx context.Context) error {
		backend, err := nftables.New(nftables.Config{
			Local:   nftables.Local{BridgeInterface: "cni0"},
			Problem: func(p nftables.Problem) { fmt.Println("not programmed:", p) },
		})
		if err != nil {
			return err
		}
		defer backend.Close()
		web := &proxier.ServicePort{
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
		if err := backend.Reset(ctx, &proxier.State{Ports: []*proxier.ServicePort{web}}); err != nil {
			return err
		}
		return backend.Apply(ctx, proxier.Delta{Remove: []proxier.Key{web.Key}})
	}
	_ = program // It needs CAP_NET_ADMIN.
}

// New checks the configuration; it does not touch the kernel.
func ExampleNew() {
	_, err := nftables.New(nftables.Config{
		Local: nftables.Local{BridgeInterface: "cni0", InterfaceNamePrefix: "veth"},
	})
	fmt.Println(err)
	// Output:
	// nftables: config: Local: set one of ClusterCIDRs, NodeCIDRs, BridgeInterface, InterfaceNamePrefix, not 2
}
