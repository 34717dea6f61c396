package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/nodekit-go/nodekit/proxier/ipvs"
)

// newIPVS returns the Backend of mode ipvs, as the file asks for it. As in kube-proxy, what
// it masquerades is in the section iptables.
func newIPVS(cfg Config) (*ipvs.Backend, error) {
	primary, prefixes := nodePortAddresses(cfg)
	c := cfg.Proxy.IPVS
	return ipvs.New(ipvs.Config{
		Families:          families(),
		Scheduler:         c.Scheduler,
		Timeouts:          ipvs.Timeouts{TCP: c.TCPTimeout.Duration, TCPFin: c.TCPFinTimeout.Duration, UDP: c.UDPTimeout.Duration},
		StrictARP:         c.StrictARP,
		ExcludeCIDRs:      excluded(cfg.Proxy),
		MasqueradeAll:     cfg.Proxy.IPTables.MasqueradeAll,
		MasqueradeBit:     new(int(*cfg.Proxy.IPTables.MasqueradeBit)),
		Local:             localTraffic(cfg.Proxy),
		NodePortAddresses: prefixes,
		NodePortPrimary:   primary,
		CheckInterval:     c.SyncPeriod.Duration,
		Log:               cfg.Log,
	})
}

// besideIPVS removes what other modes left beside a Backend of mode ipvs, and the rules and
// sets of kube-proxy's mode ipvs; the virtual servers and the device are taken over.
func besideIPVS(ctx context.Context) error {
	return errors.Join(removeTables(ctx, ""), removeIPTables(ctx), destroySets(ctx))
}

// removeIPVS removes what mode ipvs, ours or kube-proxy's, left in the network namespace of
// the calling thread: its virtual servers but those in exclude, the device, the tables, and
// the sets, to which no rule may lead any more.
func removeIPVS(ctx context.Context, exclude []netip.Prefix) error {
	b, err := ipvs.New(ipvs.Config{ExcludeCIDRs: exclude})
	if err != nil {
		return fmt.Errorf("remove what mode ipvs left: %w", err)
	}
	return errors.Join(b.Cleanup(ctx), destroySets(ctx))
}
