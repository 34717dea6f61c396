package proxy

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/config"
	"github.com/nodekit-go/nodekit/proxier/nftables"
)

// hooks are who hears of what a Backend cannot do for now; nil is nobody.
type hooks struct {
	unswept, deaf, degraded func(error)
}

// newNFTables returns the Backend of mode nftables, as the file asks for it.
func newNFTables(cfg Config, h hooks) (*nftables.Backend, error) {
	primary, prefixes := nodePortAddresses(cfg)
	warnOpen(cfg, primary, prefixes)
	return nftables.New(nftables.Config{
		Families:          families(),
		MasqueradeAll:     cfg.Proxy.NFTables.MasqueradeAll,
		MasqueradeBit:     new(int(*cfg.Proxy.NFTables.MasqueradeBit)),
		Local:             localTraffic(cfg.Proxy),
		NodePortAddresses: prefixes,
		NodePortPrimary:   primary,
		Unswept:           h.unswept,
		Deaf:              h.deaf,
		Degraded:          h.degraded,
		Log:               cfg.Log,
	})
}

// families are those that the kernel has and that are not switched off.
func families() []proxier.Family { return familiesOf("/proc") }

func familiesOf(proc string) []proxier.Family {
	_, err := os.Stat(filepath.Join(proc, "net/if_inet6"))
	// What cannot be read does not switch it off.
	off, _ := os.ReadFile(filepath.Join(proc, "sys/net/ipv6/conf/all/disable_ipv6"))
	if errors.Is(err, fs.ErrNotExist) || strings.TrimSpace(string(off)) == "1" {
		return []proxier.Family{proxier.IPv4}
	}
	return []proxier.Family{proxier.IPv4, proxier.IPv6}
}

// localTraffic returns how the file tells traffic of pods from that of others.
func localTraffic(c *config.Config) proxier.Local {
	switch c.DetectLocalMode {
	case config.BridgeInterface:
		return proxier.Local{BridgeInterface: c.DetectLocal.BridgeInterface}
	case config.InterfaceNamePrefix:
		return proxier.Local{InterfaceNamePrefix: c.DetectLocal.InterfaceNamePrefix}
	case config.NodeCIDR:
		return proxier.Local{NodeCIDRs: true}
	}
	return proxier.Local{ClusterCIDRs: c.ClusterCIDRs}
}

// nodePortAddresses expands the keywords of the file: whether node ports answer at
// the primary addresses of the node, and in which prefixes beside. No entry means
// "primary" in mode nftables and "all" in the others, as in kube-proxy.
func nodePortAddresses(cfg Config) (primary bool, prefixes []netip.Prefix) {
	entries := cfg.Proxy.NodePortAddresses
	if len(entries) == 0 {
		return modeOf(cfg.Proxy) == config.NFTables, nil
	}
	for _, s := range entries {
		switch s {
		case config.KeywordPrimary:
			primary = true
		case config.KeywordAll:
			return false, nil
		case config.KeywordLocalhost:
			// Alone, these mean nowhere in mode nftables and in IPv6.
			prefixes = append(prefixes, netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"))
		default:
			prefixes = append(prefixes, netip.MustParsePrefix(s)) // checked when the file was read
		}
	}
	return primary, prefixes
}

// warnOpen tells what nodePortAddresses does not do: a family without an entry
// answers at all addresses of the node, as in kube-proxy.
func warnOpen(cfg Config, primary bool, prefixes []netip.Prefix) {
	if slices.Contains(cfg.Proxy.NodePortAddresses, config.KeywordLocalhost) {
		cfg.Log.Warn("configuration has no effect", "field", "nodePortAddresses",
			"reason", "node ports do not answer at localhost in nftables mode")
	}
	if primary || slices.Contains(cfg.Proxy.NodePortAddresses, config.KeywordAll) {
		return
	}
	for _, f := range families() {
		if !slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return proxier.FamilyOf(p.Addr()) == f }) {
			cfg.Log.Warn("node ports answer at all addresses of the node", "family", f,
				"reason", "nodePortAddresses has none of this family")
		}
	}
}
