package config_test

import (
	"fmt"

	"github.com/nodekit-go/nodekit/proxier/config"
)

func ExampleDecode() {
	cfg, err := config.Decode([]byte(`apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clusterCIDR: 10.244.0.0/16
featureGates:
  SomeGate: true
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cfg.Mode, cfg.ClusterCIDRs, *cfg.NFTables.MasqueradeBit)
	for _, p := range cfg.Problems {
		fmt.Println(p)
	}
	// Output:
	// nftables [10.244.0.0/16] 14
	// line 6: featureGates[SomeGate]: has no effect: no feature has a gate
}
