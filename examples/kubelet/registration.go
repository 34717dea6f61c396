package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/examples/kubelet/node"
	"github.com/nodekit-go/nodekit/lease/nodestatus"
)

// registration are the flags about the API server and the Node there. Those that a
// KubeletConfiguration has fields for win over them.
type registration struct {
	kubeconfig                 string
	nodeIP, labels, taints     string
	registerNode               bool
	providerID, cloudProvider  string
	registerSet, providerIDSet func() bool
}

// add defines the flags.
func (r *registration) add(f *pflag.FlagSet) {
	f.StringVar(&r.kubeconfig, "kubeconfig", "", "`file` with the API server and the node's identity; without, the node belongs to no cluster")
	f.StringVar(&r.nodeIP, "node-ip", "", "`address` of the node, or two of different families with a comma; default: as the machine's routes say")
	f.StringVar(&r.labels, "node-labels", "", "`key=value,…` labels that a new Node gets")
	f.StringVar(&r.taints, "register-with-taints", "", "`key=value:effect,…` taints that a new Node gets; wins over registerWithTaints of the configuration")
	f.BoolVar(&r.registerNode, "register-node", true, "create the Node if it does not exist; wins over registerNode of the configuration")
	f.StringVar(&r.providerID, "provider-id", "", "`id` of the machine at its cloud; wins over providerID of the configuration")
	f.StringVar(&r.cloudProvider, "cloud-provider", "", "`external` if a cloud controller initializes the Node, empty if none does")
	r.registerSet = func() bool { return f.Changed("register-node") }
	r.providerIDSet = func() bool { return f.Changed("provider-id") }
}

// apply writes the flags into the configuration and returns what is said to the
// cluster; nil without one.
func (r *registration) apply(k *kubeletconfig.KubeletConfiguration) (*clients, error) {
	labels, labelErr := nodestatus.ParseLabels(r.labels)
	taints, taintErr := nodestatus.ParseTaints(r.taints)
	ips, ipErr := nodestatus.ParseNodeIPs(r.nodeIP)
	var cloudErr error
	if r.cloudProvider != "" && r.cloudProvider != "external" {
		cloudErr = fmt.Errorf("%q, want external or nothing", r.cloudProvider)
	}
	err := errors.Join(flagError("--node-labels", labelErr), flagError("--register-with-taints", taintErr),
		flagError("--node-ip", ipErr), flagError("--cloud-provider", cloudErr))
	if err != nil {
		return nil, err
	}
	if len(taints) > 0 {
		k.RegisterWithTaints = taints
	}
	if r.registerSet() {
		k.RegisterNode = &r.registerNode
	}
	if r.providerIDSet() {
		k.ProviderID = r.providerID
	}
	if r.kubeconfig == "" {
		return nil, nil //nolint:nilnil // a node of its own
	}
	c, err := connect(r.kubeconfig, k)
	if err != nil {
		return nil, err
	}
	c.heartbeat.Labels = labels
	c.heartbeat.Addresses = nodestatus.AddressRules{NodeIPs: ips, CloudProvider: r.cloudProvider != ""}
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
