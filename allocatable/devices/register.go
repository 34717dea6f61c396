package devices

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	deviceapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Register takes a plugin that has registered elsewhere than on the socket of Run, as in
// the directory plugins_registry: the name of its resource, the path of the socket on
// which it serves, and the versions of its API. It returns when Run has taken it over.
// Of several plugins of one resource the last is in charge; when it goes, the one before
// it is again.
func (m *Manager) Register(ctx context.Context, resource, endpoint string, versions []string) error {
	if err := checkVersions(versions...); err != nil {
		return err
	}
	return m.register(ctx, resource, endpoint)
}

// Deregister is told that a plugin has gone. One that is not known is none.
func (m *Manager) Deregister(resource, endpoint string) {
	m.mu.Lock()
	var p *plugin
	if o := m.offers[resource]; o != nil {
		if at := slices.IndexFunc(o.plugins, func(p *plugin) bool { return p.socket == endpoint }); at >= 0 {
			p = o.plugins[at]
		}
	}
	m.mu.Unlock()
	if p != nil {
		m.left(p, fmt.Errorf("it was deregistered"))
		p.close()
	}
}

// checkVersions looks for the version of the API that is spoken here.
func checkVersions(versions ...string) error {
	if slices.Contains(versions, deviceapi.Version) {
		return nil
	}
	return fmt.Errorf("requested API version %q is not supported by kubelet. Supported version is %q", versions, deviceapi.SupportedVersions)
}

// register connects to a plugin and puts it in charge.
func (m *Manager) register(ctx context.Context, resource, socket string) error {
	if err := validName(resource); err != nil {
		return err
	}
	p, err := m.dial.connect(ctx, resource, socket)
	if err != nil {
		return err
	}
	m.mu.Lock()
	replaced := m.offers.arrived(p)
	m.unsaved = true
	m.mu.Unlock()
	for _, old := range replaced {
		old.close()
	}
	select {
	case m.arrivals <- p:
	case <-ctx.Done():
		m.left(p, ctx.Err())
		p.close()
		return fmt.Errorf("take over device plugin of %s: %w", resource, ctx.Err())
	}
	m.log.Info("device plugin is registered", "resource", resource, "socket", socket)
	m.saveLater()
	m.cfg.Changed(nil)
	return nil
}

// listed takes the devices of a plugin.
func (m *Manager) listed(p *plugin, devices map[string]Device) {
	m.mu.Lock()
	changed, news := m.offers.listed(p, devices)
	pods := affected(m.book, p.resource, changed)
	m.unsaved = m.unsaved || news
	healthy := m.offers[p.resource].healthy()
	m.mu.Unlock()
	if !news {
		return
	}
	m.log.Info("devices are listed", "resource", p.resource, "devices", len(devices), "healthy", healthy)
	m.saveLater()
	m.cfg.Changed(pods)
}

// left takes note that a plugin has gone.
func (m *Manager) left(p *plugin, why error) {
	m.mu.Lock()
	was := m.offers.left(p, time.Now())
	var pods []types.UID
	if was {
		pods = m.book.holders(p.resource, func(string) bool { return true })
	}
	m.unsaved = m.unsaved || was
	m.mu.Unlock()
	if !was {
		return
	}
	m.log.Warn("device plugin has gone", "resource", p.resource, "socket", p.socket, "err", why)
	m.saveLater()
	m.cfg.Changed(pods)
}
