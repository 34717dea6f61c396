package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/nodekit-go/nodekit/internal/strictyaml"
)

// validator collects what is wrong with the values that nodekit honours.
type validator struct {
	doc  *strictyaml.Document // nil for values that are from no file
	errs []error
}

func (v *validator) fail(field, format string, args ...any) {
	v.errs = append(v.errs, &Error{Line: v.line(field), Field: field, Reason: fmt.Sprintf(format, args...)})
}

func (v *validator) line(field string) int {
	if v.doc == nil {
		return 0
	}
	return v.doc.LineOf(field)
}

func (v *validator) check(cfg *Config) {
	v.mode(cfg)
	v.nftables(cfg)
	v.iptables(cfg)
	v.ipvs(cfg)
	v.detectLocal(cfg)
	v.clusterCIDR(cfg)
	v.nodePortAddresses(cfg)
	v.conntrack(cfg)
	for field, addr := range map[string]string{"healthzBindAddress": cfg.HealthzBindAddress, "metricsBindAddress": cfg.MetricsBindAddress} {
		if err := checkHostPort(addr); addr != "" && err != nil {
			v.fail(field, "%v", err)
		}
	}
	if adj := *cfg.OOMScoreAdj; adj < -1000 || adj > 1000 {
		v.fail("oomScoreAdj", "%d is not in -1000..1000", adj)
	}
	if cfg.ClientConnection.Burst < 0 {
		v.fail("clientConnection.burst", "%d must not be negative", cfg.ClientConnection.Burst)
	}
	if cfg.ConfigSyncPeriod.Duration < 0 {
		v.fail("configSyncPeriod", "%v must be greater than 0", cfg.ConfigSyncPeriod.Duration)
	}
	if cfg.BindAddress != "" {
		if _, err := netip.ParseAddr(cfg.BindAddress); err != nil {
			v.fail("bindAddress", "%q is not an IP address", cfg.BindAddress)
		}
	}
	if f := cfg.Logging.Format; f != "" && f != "text" && f != "json" {
		v.fail("logging.format", "%q is not text or json", f)
	}
}

func (v *validator) conntrack(cfg *Config) {
	c := cfg.Conntrack
	for field, n := range map[string]int32{"maxPerCore": *c.MaxPerCore, "min": *c.Min} {
		if n < 0 {
			v.fail("conntrack."+field, "%d must not be negative", n)
		}
	}
	for field, d := range map[string]time.Duration{
		"tcpEstablishedTimeout": c.TCPEstablishedTimeout.Duration, "tcpCloseWaitTimeout": c.TCPCloseWaitTimeout.Duration,
		"udpTimeout": c.UDPTimeout.Duration, "udpStreamTimeout": c.UDPStreamTimeout.Duration,
	} {
		if d < 0 {
			v.fail("conntrack."+field, "%v must not be negative", d)
		}
	}
}

func (v *validator) mode(cfg *Config) {
	switch cfg.Mode {
	case "", IPTables, IPVS, NFTables:
	default:
		v.fail("mode", "%q is not iptables, ipvs or nftables", cfg.Mode)
	}
}

func (v *validator) nftables(cfg *Config) {
	n := cfg.NFTables
	if bit := *n.MasqueradeBit; bit < 0 || bit > 31 {
		v.fail("nftables.masqueradeBit", "%d is not in 0..31", bit)
	}
	if n.SyncPeriod.Duration <= 0 {
		v.fail("nftables.syncPeriod", "%v must be greater than 0", n.SyncPeriod.Duration)
	}
	if n.MinSyncPeriod.Duration < 0 || n.MinSyncPeriod.Duration > n.SyncPeriod.Duration {
		v.fail("nftables.minSyncPeriod", "%v must be from 0 to syncPeriod, %v", n.MinSyncPeriod.Duration, n.SyncPeriod.Duration)
	}
}

func (v *validator) iptables(cfg *Config) {
	n := cfg.IPTables
	if bit := *n.MasqueradeBit; bit < 0 || bit > 31 {
		v.fail("iptables.masqueradeBit", "%d is not in 0..31", bit)
	}
	if n.SyncPeriod.Duration <= 0 {
		v.fail("iptables.syncPeriod", "%v must be greater than 0", n.SyncPeriod.Duration)
	}
	if n.MinSyncPeriod.Duration < 0 || n.MinSyncPeriod.Duration > n.SyncPeriod.Duration {
		v.fail("iptables.minSyncPeriod", "%v must be from 0 to syncPeriod, %v", n.MinSyncPeriod.Duration, n.SyncPeriod.Duration)
	}
}

func (v *validator) ipvs(cfg *Config) {
	n := cfg.IPVS
	if n.SyncPeriod.Duration <= 0 {
		v.fail("ipvs.syncPeriod", "%v must be greater than 0", n.SyncPeriod.Duration)
	}
	if n.MinSyncPeriod.Duration < 0 || n.MinSyncPeriod.Duration > n.SyncPeriod.Duration {
		v.fail("ipvs.minSyncPeriod", "%v must be from 0 to syncPeriod, %v", n.MinSyncPeriod.Duration, n.SyncPeriod.Duration)
	}
	for field, d := range map[string]time.Duration{
		"tcpTimeout": n.TCPTimeout.Duration, "tcpFinTimeout": n.TCPFinTimeout.Duration, "udpTimeout": n.UDPTimeout.Duration,
	} {
		if d < 0 {
			v.fail("ipvs."+field, "%v must not be negative", d)
		}
	}
	for i, s := range n.ExcludeCIDRs {
		if _, err := netip.ParsePrefix(s); err != nil {
			v.fail(fmt.Sprintf("ipvs.excludeCIDRs[%d]", i), "%q is not a CIDR", s)
		}
	}
}

func (v *validator) detectLocal(cfg *Config) {
	switch cfg.DetectLocalMode {
	case ClusterCIDR, NodeCIDR:
	case BridgeInterface:
		v.interfaceName("detectLocal.bridgeInterface", cfg.DetectLocal.BridgeInterface, longestInterface)
	case InterfaceNamePrefix:
		longest := longestInterface
		if cfg.Mode == IPTables {
			longest-- // for the sign that makes it a prefix
		}
		v.interfaceName("detectLocal.interfaceNamePrefix", cfg.DetectLocal.InterfaceNamePrefix, longest)
	default:
		v.fail("detectLocalMode", "%q is not ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix", cfg.DetectLocalMode)
	}
}

// longestInterface is IFNAMSIZ of linux/if.h without the final zero.
const longestInterface = 15

func (v *validator) interfaceName(field, name string, longest int) {
	if name == "" || len(name) > longest {
		v.fail(field, "%q must have 1 to %d bytes with this detectLocalMode", name, longest)
	}
}

// clusterCIDR parses what detectLocalMode ClusterCIDR uses: one CIDR, or one per
// family.
func (v *validator) clusterCIDR(cfg *Config) {
	if cfg.ClusterCIDR == "" {
		return
	}
	for s := range strings.SplitSeq(cfg.ClusterCIDR, ",") {
		p, err := netip.ParsePrefix(strings.TrimSpace(s))
		if err != nil {
			v.fail("clusterCIDR", "%q is not a CIDR", s)
			return
		}
		cfg.ClusterCIDRs = append(cfg.ClusterCIDRs, p.Masked())
	}
	c := cfg.ClusterCIDRs
	if len(c) > 2 || len(c) == 2 && c[0].Addr().Is4() == c[1].Addr().Is4() {
		v.fail("clusterCIDR", "%q must be one CIDR, or one of each family", cfg.ClusterCIDR)
	}
}

// The keywords of nodePortAddresses.
const (
	KeywordPrimary   = "primary"
	KeywordLocalhost = "localhost"
	KeywordAll       = "all"
)

func (v *validator) nodePortAddresses(cfg *Config) {
	for i, s := range cfg.NodePortAddresses {
		switch s {
		case KeywordPrimary, KeywordLocalhost, KeywordAll:
			continue
		}
		if _, err := netip.ParsePrefix(s); err != nil {
			v.fail(fmt.Sprintf("nodePortAddresses[%d]", i), "%q is not a CIDR, primary, localhost or all", s)
		}
	}
}

func checkHostPort(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("%q is not IP:port", s)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%q has no valid port", s)
	}
	if _, err := netip.ParseAddr(host); err != nil {
		return fmt.Errorf("%q is not IP:port", s)
	}
	return nil
}
