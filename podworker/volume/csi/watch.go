package csi

import (
	"context"

	"github.com/nodekit-go/nodekit/internal/pluginwatch"
)

// Watch registers the drivers that put their sockets into a directory, for kubelets
// /var/lib/kubelet/plugins_registry, until ctx ends. It is for agents that have no other
// kinds of plugins: those are refused there.
func (p *Provider) Watch(ctx context.Context, dir string) error {
	w, err := pluginwatch.New(pluginwatch.Config{
		Dir:      dir,
		Handlers: map[string]pluginwatch.Handler{pluginwatch.CSI: plugins{p}},
		Log:      p.log,
	})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// plugins takes plugins as drivers.
type plugins struct{ p *Provider }

// Register implements pluginwatch.Handler.
func (h plugins) Register(ctx context.Context, plugin pluginwatch.Plugin) error {
	return h.p.Register(ctx, plugin.Name, plugin.Endpoint, plugin.Versions)
}

// Deregister implements pluginwatch.Handler.
func (h plugins) Deregister(_ context.Context, plugin pluginwatch.Plugin) {
	h.p.Deregister(plugin.Name, plugin.Endpoint)
}
