package proxy

import (
	"context"
	"errors"
	"net/netip"
	"sync"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/config"
	"github.com/nodekit-go/nodekit/proxier/nftables"
)

// stockTable is the table of kube-proxy's own nftables mode
// (https://github.com/kubernetes/kubernetes/blob/master/pkg/proxy/nftables/README.md).
const stockTable = "kube-proxy"

// leftovers removes what other proxies and modes left in this namespace, as soon as
// the own rules are in force and not before: Services work all the time. It is a
// proxier.Follower.
type leftovers struct {
	problem func(error)
	exclude []netip.Prefix
	ready   chan struct{} // closed when the rules are in force
	once    sync.Once
}

func newLeftovers(exclude []netip.Prefix, problem func(error)) *leftovers {
	return &leftovers{problem: problem, exclude: exclude, ready: make(chan struct{})}
}

// Reset implements proxier.Follower.
func (l *leftovers) Reset(*proxier.State) { l.once.Do(func() { close(l.ready) }) }

// Applied implements proxier.Follower.
func (l *leftovers) Applied(proxier.Delta) {}

// Run removes leftovers once and returns nil when ctx ends.
func (l *leftovers) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-l.ready:
	}
	if err := removeLeftovers(ctx, "", l.exclude); ctx.Err() == nil {
		l.problem(err)
	}
	<-ctx.Done()
	return nil
}

// removeLeftovers removes the tables of kube-proxy's nftables mode, the chains of its
// iptables and ipvs modes and, after them, the virtual servers but those in exclude, the
// device and the sets of ipvs mode. The path is that of the network namespace of the
// calling thread, empty if that is the one of the process.
func removeLeftovers(ctx context.Context, netns string, exclude []netip.Prefix) error {
	b, err := nftables.New(nftables.Config{Table: stockTable, NetNS: netns})
	if err != nil {
		return err
	}
	return errors.Join(b.Cleanup(ctx), b.Close(), removeIPTables(ctx), removeIPVS(ctx, exclude))
}

// excluded returns the addresses whose virtual servers are others'.
func excluded(c *config.Config) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range c.IPVS.ExcludeCIDRs {
		if p, err := netip.ParsePrefix(s); err == nil {
			out = append(out, p.Masked())
		}
	}
	return out
}

// Cleanup removes from the kernel what a Proxy with this Config, and kube-proxy in
// any of its modes, may have made, in whatever process. Nothing there is not an error.
func Cleanup(ctx context.Context, cfg Config) error {
	if err := cfg.complete(); err != nil {
		return err
	}
	if cfg.Backend != nil {
		return cfg.Backend.Cleanup(ctx)
	}
	b, err := bareNFTables(cfg)
	if err != nil {
		return err
	}
	return errors.Join(b.Cleanup(ctx), b.Close(), removeLeftovers(ctx, "", excluded(cfg.Proxy)))
}
