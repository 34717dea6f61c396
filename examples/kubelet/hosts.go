package main

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/spf13/pflag"

	"github.com/nodekit-go/nodekit/probes"
)

// hosts are the flags about the hosts that pods have the kubelet connect to.
type hosts struct{ denied string }

// add defines the flags.
func (h *hosts) add(f *pflag.FlagSet) {
	f.StringVar(&h.denied, "deny-probe-hosts", "", "`cidr,...` networks that no host which probes and hooks name may lead to, as 169.254.0.0/16, or 0.0.0.0/0,::/0 for all but the pod itself")
}

// reachable returns what probes and hooks may connect to, nil: everything.
func (h *hosts) reachable() (probes.Reach, error) {
	if h.denied == "" {
		return nil, nil //nolint:nilnil // it is not decided
	}
	var networks []netip.Prefix
	var wrong []error
	for text := range strings.SplitSeq(h.denied, ",") {
		network, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			wrong = append(wrong, fmt.Errorf("--deny-probe-hosts: %q is no network, want one like 169.254.0.0/16", text))
			continue
		}
		networks = append(networks, network)
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, err
	}
	return func(ip netip.Addr) error {
		for _, network := range networks {
			if network.Contains(ip) {
				return fmt.Errorf("%s is in %s, which --deny-probe-hosts denies", ip, network)
			}
		}
		return nil
	}, nil
}
