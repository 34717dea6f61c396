package proxy

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/config"
	"github.com/nodekit-go/nodekit/proxier/nftables"
)

// newNFTables returns the Backend that the file asks for.
func newNFTables(cfg Config) (*nftables.Backend, error) {
	switch cfg.Proxy.Mode {
	case config.NFTables:
	case "":
		cfg.Log.Info("mode is not set, nftables is used", "mode", config.NFTables)
	default:
		return nil, fmt.Errorf("mode %q is not available: set mode to nftables", cfg.Proxy.Mode)
	}
	local, err := localTraffic(cfg.Proxy)
	if err != nil {
		return nil, err
	}
	nodeAddrs := primaryAddrs(cfg.Proxy.BindAddress)
	return nftables.New(nftables.Config{
		Families:          families(),
		MasqueradeAll:     cfg.Proxy.NFTables.MasqueradeAll,
		MasqueradeBit:     new(int(*cfg.Proxy.NFTables.MasqueradeBit)),
		Local:             local,
		NodePortAddresses: nodePortAddresses(cfg, nodeAddrs),
		NodeAddrs:         nodeAddrs,
		Log:               cfg.Log,
	})
}

// bareNFTables returns a Backend for nothing but Cleanup.
func bareNFTables(cfg Config) (*nftables.Backend, error) {
	return nftables.New(nftables.Config{Log: cfg.Log})
}

// families are those that the kernel has.
func families() []proxier.Family {
	if _, err := os.Stat("/proc/net/if_inet6"); errors.Is(err, fs.ErrNotExist) {
		return []proxier.Family{proxier.IPv4}
	}
	return []proxier.Family{proxier.IPv4, proxier.IPv6}
}

func localTraffic(c *config.Config) (nftables.Local, error) {
	switch c.DetectLocalMode {
	case config.BridgeInterface:
		return nftables.Local{BridgeInterface: c.DetectLocal.BridgeInterface}, nil
	case config.InterfaceNamePrefix:
		return nftables.Local{InterfaceNamePrefix: c.DetectLocal.InterfaceNamePrefix}, nil
	case config.NodeCIDR:
		return nftables.Local{}, errors.New("detectLocalMode NodeCIDR needs the Node object of an API server: set ClusterCIDR and clusterCIDR instead")
	}
	return nftables.Local{ClusterCIDRs: c.ClusterCIDRs}, nil
}

// nodePortAddresses expands the keywords of the file. No entry means "primary", as
// in kube-proxy's nftables mode. A family without an entry answers at all addresses
// of the node, also as in kube-proxy, which is worth a warning.
func nodePortAddresses(cfg Config, nodeAddrs []netip.Addr) []netip.Prefix {
	entries := cfg.Proxy.NodePortAddresses
	if len(entries) == 0 {
		entries = []string{config.KeywordPrimary}
	}
	var out []netip.Prefix
	for _, s := range entries {
		switch s {
		case config.KeywordPrimary:
			for _, a := range nodeAddrs {
				out = append(out, netip.PrefixFrom(a, a.BitLen()))
			}
		case config.KeywordAll:
			return nil
		case config.KeywordLocalhost:
			cfg.Log.Warn("configuration has no effect", "field", "nodePortAddresses",
				"reason", "node ports do not answer at localhost in nftables mode")
		default:
			out = append(out, netip.MustParsePrefix(s)) // checked when the file was read
		}
	}
	for _, f := range families() {
		if !slices.ContainsFunc(out, func(p netip.Prefix) bool { return proxier.FamilyOf(p.Addr()) == f }) {
			cfg.Log.Warn("node ports answer at all addresses of the node", "family", f,
				"reason", "nodePortAddresses has none of this family")
		}
	}
	return out
}
