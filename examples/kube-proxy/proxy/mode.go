package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/config"
	"github.com/nodekit-go/nodekit/proxier/ipvs"
)

// programmer is a Backend that notices when somebody else changes its rules.
type programmer interface {
	proxier.Backend
	Watch(ctx context.Context, drifted func()) error
}

// mode is how Services are programmed.
type mode struct {
	backend programmer
	// closer is nil if there is nothing to close.
	closer io.Closer
	// others removes what other modes left, once the Backend is in force.
	others func(ctx context.Context) error
}

// modeOf returns the mode that the file asks for.
func modeOf(c *config.Config) config.Mode {
	if c.Mode == "" {
		return config.NFTables
	}
	return c.Mode
}

var errNeedsNode = errors.New("detectLocalMode NodeCIDR needs the Node object of an API server: set ClusterCIDR and clusterCIDR instead")

// newMode makes what the file's mode asks for.
func (w *wiring) newMode() (mode, error) {
	if w.cfg.Proxy.Mode == "" {
		w.cfg.Log.Info("mode is not set, nftables is used", "mode", config.NFTables)
	}
	if needsNode(w.cfg.Proxy) && w.client == nil {
		return mode{}, errNeedsNode
	}
	exclude := excluded(w.cfg.Proxy)
	switch m := modeOf(w.cfg.Proxy); m {
	case config.NFTables:
		b, err := newNFTables(w.cfg, w.hooks())
		return mode{b, b, func(ctx context.Context) error { return removeLeftovers(ctx, "", exclude) }}, err
	case config.IPTables:
		b, err := newIPTables(w.cfg, w.hooks(), w.metrics.iptables(func() iptablesCounters { return w.counters }))
		if err == nil {
			w.counters = b
		}
		return mode{b, nil, func(ctx context.Context) error { return besideIPTables(ctx, b, exclude) }}, err
	case config.IPVS:
		if err := ipvs.Check(""); err != nil {
			return mode{}, fmt.Errorf("mode %q: %w", m, err)
		}
		w.metrics.withoutNFTables()
		b, err := newIPVS(w.cfg)
		return mode{b, b, besideIPVS}, err
	default:
		return mode{}, errMode(m)
	}
}

func errMode(m config.Mode) error {
	return fmt.Errorf("mode %q is not available: set mode to nftables, iptables or ipvs", m)
}

// flowsLeave is after how long flows of UDP have left an endpoint that is gone, so that the
// kernel can be made to forget them. 0: at once.
func flowsLeave(m config.Mode) time.Duration {
	if m == config.IPVS {
		return ipvs.FlowsLeave
	}
	return 0
}

// period is how often the file wants all looked at, and pause the least time between two
// rounds; 0 leaves the choice to the proxier.
func period(c *config.Config) time.Duration {
	switch modeOf(c) {
	case config.IPTables:
		return c.IPTables.SyncPeriod.Duration
	case config.IPVS:
		return c.IPVS.SyncPeriod.Duration
	}
	return c.NFTables.SyncPeriod.Duration
}

func pause(c *config.Config) time.Duration {
	switch modeOf(c) {
	case config.IPTables:
		return c.IPTables.MinSyncPeriod.Duration
	case config.IPVS:
		return c.IPVS.MinSyncPeriod.Duration
	}
	return c.NFTables.MinSyncPeriod.Duration
}
