package main

import (
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/examples/internal/program"
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
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read --kubeconfig: %w", err)
	}
	config.UserAgent = "kubelet/" + program.Version()
	config.ContentType = k.ContentType
	config.QPS, config.Burst = float32(-1), int(k.KubeAPIBurst)
	if k.KubeAPIQPS != nil && *k.KubeAPIQPS > 0 {
		config.QPS = float32(*k.KubeAPIQPS)
	}
	main, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of --kubeconfig: %w", err)
	}
	timeout := min(nodestatus.DefaultTimeout, time.Duration(k.NodeLeaseDurationSeconds)*time.Second)
	leases, leaseLink, err := ownClient(config, timeout)
	if err != nil {
		return nil, err
	}
	nodes, _, err := ownClient(config, timeout)
	if err != nil {
		return nil, err
	}
	return &clients{main: main, heartbeat: &node.Heartbeat{
		Leases: leases.CoordinationV1().Leases(lease.DefaultNamespace),
		Link:   leaseLink,
		Nodes:  nodes.CoreV1().Nodes(),
	}}, nil
}

// ownClient returns a client with connections of its own and no limit of its rate.
func ownClient(config *rest.Config, timeout time.Duration) (kubernetes.Interface, *lease.Link, error) {
	link := lease.NewLink(lease.LinkConfig{})
	own := rest.CopyConfig(config)
	own.Dial = link.DialContext
	own.Wrap(link.Wrap)
	own.Timeout = timeout
	own.QPS = -1
	client, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, nil, fmt.Errorf("make a client of --kubeconfig: %w", err)
	}
	return client, link, nil
}
