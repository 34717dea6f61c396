package testnode

import (
	"context"
	"path/filepath"
)

// StartKubeProxy is LaunchKubeProxy, and waits until the health check answers.
func (n *Node) StartKubeProxy(ctx context.Context, binary string) (*Process, error) {
	process, err := n.LaunchKubeProxy(binary)
	if err != nil {
		return nil, err
	}
	return process, n.waitHealthy(ctx, process, "http://127.0.0.1:10256/healthz")
}

// LaunchKubeProxy starts the binary on the node, with Services from
// [Node.Services] and endpoints from the kubelet's pods, and returns at once.
func (n *Node) LaunchKubeProxy(binary string) (*Process, error) {
	clusterCIDR := PodIPv4Range
	if hasIPv6() {
		clusterCIDR += "," + PodIPv6Range
	}
	config := map[string]any{
		"apiVersion":         "kubeproxy.config.k8s.io/v1alpha1",
		"kind":               "KubeProxyConfiguration",
		"mode":               "nftables",
		"clusterCIDR":        clusterCIDR,
		"healthzBindAddress": "127.0.0.1:10256",
	}
	file, err := n.writeConfig("kube-proxy.yaml", config)
	if err != nil {
		return nil, err
	}
	return n.StartProcess("kube-proxy", binary,
		"--config", file, "--hostname-override", NodeName, "--source-dir", n.Services(),
		"--pods-url", "unix://"+filepath.Join(n.KubeletRoot(), "kubelet.sock"))
}
