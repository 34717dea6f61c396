package main

import (
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/examples/kubelet/node"
	"github.com/nodekit-go/nodekit/lease"
	"github.com/nodekit-go/nodekit/lease/nodestatus"
)

// clients are the ways to the API server. The heartbeat has two of its own, one for
// the Lease and one for the status, so that nothing else can hold it up.
type clients struct {
	main      kubernetes.Interface
	heartbeat *node.Heartbeat
}

// connect returns the clients of an API server. Nothing is sent yet.
func connect(to *link, k *kubeletconfig.KubeletConfiguration) (*clients, error) {
	timeout := min(nodestatus.DefaultTimeout, time.Duration(k.NodeLeaseDurationSeconds)*time.Second)
	leases, line, err := own(to, k, timeout)
	if err != nil {
		return nil, err
	}
	nodes, _, err := own(to, k, timeout)
	if err != nil {
		return nil, err
	}
	config, err := to.config(nil)
	if err != nil {
		return nil, err
	}
	config.ContentType, config.QPS = k.ContentType, -1
	if k.KubeAPIQPS != nil && *k.KubeAPIQPS > 0 {
		config.QPS, config.Burst = float32(*k.KubeAPIQPS), int(k.KubeAPIBurst)
	}
	main, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of --kubeconfig: %w", err)
	}
	return &clients{main: main, heartbeat: &node.Heartbeat{
		Leases: leases.CoordinationV1().Leases(lease.DefaultNamespace),
		Link:   line,
		Nodes:  nodes.CoreV1().Nodes(),
	}}, nil
}

// own returns a client whose connections are its own, with the Link that drops them, and
// with a timeout for each request.
func own(to *link, k *kubeletconfig.KubeletConfiguration, timeout time.Duration) (kubernetes.Interface, *lease.Link, error) {
	line := lease.NewLink(lease.LinkConfig{})
	config, err := to.config(line.DialContext)
	if err != nil {
		return nil, nil, err
	}
	config.Wrap(line.Wrap)
	config.ContentType, config.QPS, config.Timeout = k.ContentType, -1, timeout
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("make a client of --kubeconfig: %w", err)
	}
	return client, line, nil
}
