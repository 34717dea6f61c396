package cluster

import (
	"context"
	"maps"

	"github.com/nodekit-go/nodekit/test/testnode"
)

// proxyProgram is the node's kube-proxy.
func (n *Node) proxyProgram(kubeconfig string) *Program {
	return &Program{
		name: "kube-proxy",
		launch: func(ctx context.Context) (*testnode.Process, error) {
			_, source := n.sources()
			binary, err := n.cluster.binaries.node(ctx, n, "kube-proxy", source)
			if err != nil {
				return nil, err
			}
			if err := n.writeProxyConfig(kubeconfig); err != nil {
				return nil, err
			}
			if err := n.cleanRules(binary); err != nil {
				return nil, err
			}
			return n.StartProcess("kube-proxy", binary,
				"--config="+n.Dir("kube-proxy.yaml"), "--hostname-override="+n.name, "-v=2")
		},
		ready: n.answers("http://127.0.0.1:10256/healthz"),
	}
}

func (n *Node) writeProxyConfig(kubeconfig string) error {
	type object = map[string]any
	config := object{
		"apiVersion":       "kubeproxy.config.k8s.io/v1alpha1",
		"kind":             "KubeProxyConfiguration",
		"clientConnection": object{"kubeconfig": kubeconfig},
		"mode":             n.cfg.Backend,
		"clusterCIDR":      PodRange,
		// The table of connections has one size for the whole machine.
		"conntrack": object{"maxPerCore": 0, "min": 0, "tcpBeLiberal": true},
	}
	maps.Copy(config, n.cfg.ProxySettings)
	return writeJSON(n.Dir("kube-proxy.yaml"), config)
}
