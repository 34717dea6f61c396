package proxy

import (
	"context"
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// ipvsSets are the sets of ipvs mode; those of IPv6 have KUBE-6- in the place of KUBE-.
func ipvsSets() []string {
	return []string{
		"LOOP-BACK", "CLUSTER-IP", "EXTERNAL-IP", "EXTERNAL-IP-LOCAL", "LOAD-BALANCER", "LOAD-BALANCER-LOCAL",
		"LOAD-BALANCER-FW", "LOAD-BALANCER-SOURCE-IP", "LOAD-BALANCER-SOURCE-CIDR", "NODE-PORT-TCP", "NODE-PORT-UDP",
		"NODE-PORT-LOCAL-TCP", "NODE-PORT-LOCAL-UDP", "NODE-PORT-SCTP-HASH", "NODE-PORT-LOCAL-SCTP-HASH",
		"HEALTH-CHECK-NODE-PORT", "IPVS-IPS",
	}
}

// destroySets destroys the sets that are there.
func destroySets(ctx context.Context) error {
	// Numbers of linux/netfilter/ipset/ip_set.h. Names end after 31 bytes.
	const protocolVersion, destroy, attrProtocol, attrName, maxName = 6, 3, 1, 2, 31
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return fmt.Errorf("connect to ipset over netlink: %w", err)
	}
	defer func() { _ = c.Close() }()
	var errs []error
	for _, prefix := range []string{"KUBE-", "KUBE-6-"} {
		for _, set := range ipvsSets() {
			name := prefix + set
			name = name[:min(len(name), maxName)]
			attrs, err := netlink.MarshalAttributes([]netlink.Attribute{
				{Type: attrProtocol, Data: []byte{protocolVersion}}, {Type: attrName, Data: append([]byte(name), 0)},
			})
			if err == nil && ctx.Err() == nil {
				_, err = c.Execute(netlink.Message{
					Header: netlink.Header{Type: unix.NFNL_SUBSYS_IPSET<<8 | destroy, Flags: netlink.Request | netlink.Acknowledge},
					Data:   append([]byte{unix.AF_INET, unix.NFNETLINK_V0, 0, 0}, attrs...),
				})
			}
			if errors.Is(err, unix.EINVAL) {
				return nil // a kernel without sets
			}
			if err != nil && !errors.Is(err, unix.ENOENT) {
				errs = append(errs, fmt.Errorf("destroy the set %s: %w", name, err))
			}
		}
	}
	return errors.Join(errs...)
}
