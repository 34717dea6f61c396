package proxy

import (
	"context"
	"errors"
	"net/netip"

	"github.com/nodekit-go/nodekit/proxier/iptables"
)

// newIPTables returns the Backend of mode iptables, as the file asks for it.
func newIPTables(cfg Config, h hooks, observe func(iptables.Restore)) (*iptables.Backend, error) {
	primary, prefixes := nodePortAddresses(cfg)
	return iptables.New(iptables.Config{
		Families:           families(),
		MasqueradeAll:      cfg.Proxy.IPTables.MasqueradeAll,
		MasqueradeBit:      new(int(*cfg.Proxy.IPTables.MasqueradeBit)),
		Local:              localTraffic(cfg.Proxy),
		NodePortAddresses:  prefixes,
		NodePortPrimary:    primary,
		LocalhostNodePorts: *cfg.Proxy.IPTables.LocalhostNodePorts,
		CheckInterval:      cfg.Proxy.IPTables.SyncPeriod.Duration,
		Degraded:           h.degraded,
		Observe:            observe,
		Log:                cfg.Log,
	})
}

// besideIPTables removes what other modes left beside a Backend of mode iptables: the
// tables of both nftables modes, the rules in the other variant of iptables, and ipvs.
func besideIPTables(ctx context.Context, b *iptables.Backend, exclude []netip.Prefix) error {
	return errors.Join(removeTables(ctx, ""), b.CleanOthers(ctx), removeIPVS(ctx, exclude))
}

// removeIPTables removes the chains of kube-proxy's iptables and ipvs modes and the jumps
// to them, in the network namespace of the calling thread.
func removeIPTables(ctx context.Context) error { return iptables.Cleanup(ctx, nil, iptables.Detect) }
