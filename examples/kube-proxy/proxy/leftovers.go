package proxy

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

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
	remove  func(context.Context) error
	problem func(error)
	ready   chan struct{} // closed when the rules are in force
	once    sync.Once
}

func newLeftovers(remove func(context.Context) error, problem func(error)) *leftovers {
	return &leftovers{remove: remove, problem: problem, ready: make(chan struct{})}
}

// Reset implements proxier.Follower.
func (l *leftovers) Reset(*proxier.State) { l.once.Do(func() { close(l.ready) }) }

// Applied implements proxier.Follower.
func (l *leftovers) Applied(proxier.Delta) {}

// Pauses between attempts to remove what does not go.
const (
	minLeftoverRetry = 5 * time.Second
	maxLeftoverRetry = 10 * time.Minute
)

// Run removes leftovers, once it succeeds, and returns nil when ctx ends.
func (l *leftovers) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-l.ready:
	}
	for wait := minLeftoverRetry; ; wait = min(2*wait, maxLeftoverRetry) {
		err := l.remove(ctx)
		if ctx.Err() != nil {
			return nil
		}
		l.problem(err)
		if err == nil {
			<-ctx.Done()
			return nil
		}
		if !sleep(ctx, wait) {
			return nil
		}
	}
}

// removeLeftovers removes the tables of kube-proxy's nftables mode, the chains of its
// iptables and ipvs modes and, after them, the virtual servers but those in exclude, the
// device and the sets of ipvs mode. The path is that of the network namespace of the
// calling thread, empty if that is the one of the process.
func removeLeftovers(ctx context.Context, netns string, exclude []netip.Prefix) error {
	return errors.Join(removeTable(ctx, stockTable, netns), removeIPTables(ctx), removeIPVS(ctx, exclude))
}

// removeTables removes the tables of both nftables modes, kube-proxy's and ours.
func removeTables(ctx context.Context, netns string) error {
	return errors.Join(removeTable(ctx, stockTable, netns), removeTable(ctx, nftables.DefaultTable, netns))
}

func removeTable(ctx context.Context, name, netns string) error {
	b, err := nftables.New(nftables.Config{Table: name, NetNS: netns})
	if err != nil {
		return err
	}
	return errors.Join(b.Cleanup(ctx), b.Close())
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
	return errors.Join(removeTable(ctx, nftables.DefaultTable, ""), removeLeftovers(ctx, "", excluded(cfg.Proxy)))
}
