package main

import (
	"fmt"
	"log/slog"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable/config"
	"github.com/nodekit-go/nodekit/examples/kubelet/node"
)

// load reads the configuration. What in it has no effect is logged, what is wrong is
// the error, both with their lines.
func (o *options) load(log *slog.Logger) (*kubeletconfig.KubeletConfiguration, error) {
	cfg, problems, err := config.LoadFiles(o.config, o.configDir, node.Honoured())
	if err != nil {
		return nil, err
	}
	for _, p := range problems {
		if p.Severity == config.Warning {
			log.Warn("configuration", "problem", p.String())
		}
	}
	if err := config.Err(problems); err != nil {
		return nil, fmt.Errorf("configuration:\n%w", err)
	}
	if o.endpoint != "" {
		cfg.ContainerRuntimeEndpoint = o.endpoint
	}
	return cfg, nil
}
