package main

import (
	"log/slog"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/examples/kubelet/node"
)

// node returns the node that the flags and the configuration describe.
func (o *options) node(cfg *kubeletconfig.KubeletConfiguration, log *slog.Logger) (node.Config, error) {
	name, err := o.nodeName()
	if err != nil {
		return node.Config{}, err
	}
	store, err := o.store()
	if err != nil {
		return node.Config{}, err
	}
	reach, err := o.reachable()
	if err != nil {
		return node.Config{}, err
	}
	o.look = o.dryRun != ""
	return o.apply(node.Config{
		Kubelet:           cfg,
		Name:              name,
		Root:              o.root,
		TakeOver:          o.takeOver,
		CredentialPlugins: o.plugins,
		PodStore:          store,
		Limits:            o.limits(),
		Probes:            node.Probes{Reach: reach},
		API:               node.API{SetVerbosity: o.setVerbosity, Flags: o.flags.all},
		Log:               log,
	})
}
