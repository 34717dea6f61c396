package main

import (
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/examples/apiclient"
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

// connect returns the clients of a kubeconfig file. Nothing is sent yet.
func connect(kubeconfig string, k *kubeletconfig.KubeletConfiguration) (*clients, error) {
	config, err := apiclient.Config(kubeconfig, "kubelet")
	if err != nil {
		return nil, err
	}
	config.ContentType = k.ContentType
	timeout := min(nodestatus.DefaultTimeout, time.Duration(k.NodeLeaseDurationSeconds)*time.Second)
	leases, link, err := apiclient.Own(config, timeout)
	if err != nil {
		return nil, err
	}
	nodes, _, err := apiclient.Own(config, timeout)
	if err != nil {
		return nil, err
	}
	if k.KubeAPIQPS != nil && *k.KubeAPIQPS > 0 {
		config.QPS, config.Burst = float32(*k.KubeAPIQPS), int(k.KubeAPIBurst)
	}
	main, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of --kubeconfig: %w", err)
	}
	return &clients{main: main, heartbeat: &node.Heartbeat{
		Leases: leases.CoordinationV1().Leases(lease.DefaultNamespace),
		Link:   link,
		Nodes:  nodes.CoreV1().Nodes(),
	}}, nil
}
