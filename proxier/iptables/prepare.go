package iptables

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/nodekit-go/nodekit/proxier"
)

// Prepare does what needs more privilege than programming Services, for a later process
// that has less: where LocalhostNodePorts asks for it, it sets route_localnet, once the
// rule that keeps others on the network away from 127.0.0.1 is there. Nothing else is
// changed. It must not run beside the other methods.
func (b *Backend) Prepare(ctx context.Context) error {
	if !b.wantsLocalhost() {
		return nil
	}
	if err := b.prepare(ctx); err != nil {
		return fmt.Errorf("iptables: prepare node ports at 127.0.0.1: %w", err)
	}
	return nil
}

// wantsLocalhost reports whether Config lets node ports answer at 127.0.0.1, as far as
// that can be told without the addresses of the node.
func (b *Backend) wantsLocalhost() bool {
	if !b.cfg.LocalhostNodePorts || !slices.Contains(b.cfg.Families, proxier.IPv4) {
		return false
	}
	within := b.nodePortPrefixes(proxier.IPv4, proxier.Network{})
	if len(within) == 0 {
		return !b.cfg.NodePortPrimary
	}
	return slices.ContainsFunc(within, netip.MustParsePrefix(loopback4).Overlaps)
}

func (b *Backend) prepare(ctx context.Context) error {
	amiss, err := b.find(ctx)
	if err != nil {
		return err
	}
	if !slices.Contains(b.families(), proxier.IPv4) {
		return amiss
	}
	saved, err := b.save(ctx, proxier.IPv4)
	if err != nil {
		return err
	}
	s := newRuleset(renderer{family: proxier.IPv4}, fixed{guard: guard()})
	s.resetGuard(saved)
	s.resetJumps(saved, func(j jump) bool { return j.to == hostFirewallChain })
	if _, err := b.restore(ctx, proxier.IPv4, s); err != nil {
		return err
	}
	return b.host.set(routeLocalnetParameter)
}
