package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/examples/kubelet/node"
	"github.com/nodekit-go/nodekit/lease/nodestatus"
)

// registration are the flags about the API server and the Node there that have no field in
// a KubeletConfiguration.
type registration struct {
	kubeconfig     string
	nodeIP, labels string
	cloudProvider  string
}

// add defines the flags about the API server.
func (r *registration) add(f *pflag.FlagSet) {
	f.StringVar(&r.kubeconfig, "kubeconfig", "", "`file` with the API server and the node's identity; without, the node belongs to no cluster")
}

// addNode defines the flags about the Node.
func (r *registration) addNode(f *pflag.FlagSet) {
	f.StringVar(&r.nodeIP, "node-ip", "", "`address` of the node, or two of different families with a comma; default: as the machine's routes say")
	f.StringVar(&r.labels, "node-labels", "", "`key=value,…` labels that a new Node gets")
	f.StringVar(&r.cloudProvider, "cloud-provider", "", "`external` if a cloud controller initializes the Node, empty if none does")
}

// identity is what the flags say of the Node.
func (r *registration) identity() (labels map[string]string, rules nodestatus.AddressRules, err error) {
	labels, labelErr := nodestatus.ParseLabels(r.labels)
	ips, ipErr := nodestatus.ParseNodeIPs(r.nodeIP)
	var cloudErr error
	if r.cloudProvider != "" && r.cloudProvider != "external" {
		cloudErr = fmt.Errorf("%q, want external or nothing", r.cloudProvider)
	}
	err = errors.Join(flagError("--node-labels", labelErr), flagError("--node-ip", ipErr), flagError("--cloud-provider", cloudErr))
	return labels, nodestatus.AddressRules{NodeIPs: ips, CloudProvider: r.cloudProvider != ""}, err
}

// apply returns what is said to the cluster; nil without one.
func (r *registration) apply(k *kubeletconfig.KubeletConfiguration) (*clients, error) {
	labels, rules, err := r.identity()
	if err != nil {
		return nil, err
	}
	if r.kubeconfig == "" {
		return nil, nil //nolint:nilnil // a node of its own
	}
	c, err := connect(r.kubeconfig, k)
	if err != nil {
		return nil, err
	}
	c.heartbeat.Labels, c.heartbeat.Addresses = labels, rules
	return c, nil
}

func flagError(flag string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", flag, err)
}

// join has a node belong to the cluster, if there is one.
func (c *clients) join(cfg node.Config) node.Config {
	if c != nil {
		cfg.Client, cfg.Heartbeat = c.main, c.heartbeat
	}
	return cfg
}
