package ipvs_test

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/ipvs"
)

func program(ctx context.Context, web *proxier.ServicePort) error {
	backend, err := ipvs.New(ipvs.Config{
		Scheduler: "lc",
		Local:     ipvs.Local{BridgeInterface: "cni0"},
		Problem:   func(p ipvs.Problem) { fmt.Println("not programmed:", p) },
	})
	if err != nil {
		return err
	}
	defer backend.Close()
	if err := backend.Reset(ctx, &proxier.State{Ports: []*proxier.ServicePort{web}}); err != nil {
		return err
	}
	return backend.Apply(ctx, proxier.Delta{Remove: []proxier.Key{web.Key}})
}

func Example() {
	web := &proxier.ServicePort{
		Key: proxier.Key{
			PortName: proxier.PortName{Namespace: "default", Name: "web", Protocol: proxier.TCP},
			Family:   proxier.IPv4,
		},
		Frontends:    []proxier.Frontend{{Kind: proxier.ClusterIP, Addr: netip.MustParseAddr("10.96.0.10"), Port: 80}},
		Cluster:      []proxier.Endpoint{{Addr: netip.MustParseAddrPort("10.244.2.15:8080")}},
		HasEndpoints: true,
		Balance:      proxier.Balance{Scheduler: "sh"},
	}
	_ = program // needs CAP_NET_ADMIN and a kernel with IPVS
	backend, err := ipvs.New(ipvs.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer backend.Close()
	for _, line := range backend.Lines(&proxier.State{}, web) {
		fmt.Println(line)
	}
	// Output:
	// address 10.96.0.10 of kube-ipvs0
	// element cluster-ips { 10.96.0.10 . tcp . 80 }
	// element service-ips { 10.96.0.10 }
	// real server 10.244.2.15:8080 weight 1 of TCP 10.96.0.10:80
	// virtual server TCP 10.96.0.10:80 sh
}
