package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/nodekit-go/nodekit/examples/kubelet/node"
	"github.com/nodekit-go/nodekit/lease/nodestatus"
)

// registration are the flags about the API server and the Node there that have no field in
// a KubeletConfiguration.
type registration struct {
	kubeconfig    string
	nodeIP        string
	labels        growing
	cloudProvider string
	certificates
	// look says that nothing is to be written, as by a preview.
	look bool
}

// add defines the flags about the API server.
func (r *registration) add(f *pflag.FlagSet) {
	f.StringVar(&r.kubeconfig, "kubeconfig", "", "`file` with the API server and the node's identity; without, the node belongs to no cluster")
	r.certificates.add(f)
}

// addNode defines the flags about the Node.
func (r *registration) addNode(f *pflag.FlagSet) {
	f.StringVar(&r.nodeIP, "node-ip", "", "`address` of the node, or two of different families with a comma; default: as the machine's routes say")
	f.Var(&r.labels, "node-labels", "`key=value,...` labels that a new Node gets; given again, the flag adds to them")
	f.StringVar(&r.cloudProvider, "cloud-provider", "", "`external` if a cloud controller initializes the Node, empty if none does")
}

// identity is what the flags say of the Node.
func (r *registration) identity() (labels map[string]string, rules nodestatus.AddressRules, err error) {
	labels, labelErr := nodestatus.ParseLabels(string(r.labels))
	ips, ipErr := nodestatus.ParseNodeIPs(r.nodeIP)
	ipErr = errors.Join(ipErr, nodestatus.AddressRules{NodeIPs: ips}.Validate())
	var cloudErr error
	if r.cloudProvider != "" && r.cloudProvider != "external" {
		cloudErr = fmt.Errorf("%q, want external or nothing", r.cloudProvider)
	}
	err = errors.Join(flagError("--node-labels", labelErr), flagError("--node-ip", ipErr), flagError("--cloud-provider", cloudErr))
	return labels, nodestatus.AddressRules{NodeIPs: ips, CloudProvider: r.cloudProvider != ""}, err
}

// apply has a node belong to the cluster of the flags, if there is one.
func (r *registration) apply(cfg node.Config) (node.Config, error) {
	labels, rules, err := r.identity()
	if err != nil {
		return cfg, err
	}
	cfg.API.CertDir = r.dir(cfg.Root)
	if r.kubeconfig == "" && r.bootstrap == "" {
		cfg.Labels, cfg.IPs = labels, rules.NodeIPs // of a node of its own
		return cfg, nil
	}
	to, err := r.reach(cfg)
	if err != nil {
		return cfg, err
	}
	c, err := connect(to, cfg.Kubelet)
	if err != nil {
		return cfg, err
	}
	c.heartbeat.Labels, c.heartbeat.Addresses = labels, rules
	cfg.Client, cfg.Heartbeat = c.main, c.heartbeat
	cfg.Collectors, cfg.Beside = to.collectors, to.beside()
	return cfg, nil
}

// growing is a list with commas that each flag adds to. It implements pflag.Value.
type growing string

// Set adds to the list.
func (g *growing) Set(s string) error {
	if *g != "" {
		s = string(*g) + "," + s
	}
	*g = growing(s)
	return nil
}

// String returns the list.
func (g *growing) String() string { return string(*g) }

// Type names the value in the help.
func (g *growing) Type() string { return "string" }

func flagError(flag string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", flag, err)
}
