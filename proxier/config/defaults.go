package config

import (
	"net"
	"net/netip"
	"strconv"
)

// setDefaults fills in the fields that nodekit honours.
func setDefaults(cfg *Config) {
	if cfg.HealthzBindAddress == "" {
		host := "0.0.0.0"
		if a, err := netip.ParseAddr(cfg.BindAddress); err == nil && a.Is6() {
			host = "::"
		}
		cfg.HealthzBindAddress = host
	}
	cfg.HealthzBindAddress = withPort(cfg.HealthzBindAddress, DefaultHealthzPort)
	if cfg.NFTables.MasqueradeBit == nil {
		cfg.NFTables.MasqueradeBit = new(int32(DefaultMasqueradeBit))
	}
	if cfg.NFTables.SyncPeriod.Duration == 0 {
		cfg.NFTables.SyncPeriod.Duration = DefaultSyncPeriod
	}
	if cfg.DetectLocalMode == "" {
		cfg.DetectLocalMode = ClusterCIDR
	}
}

// withPort appends the port to a bare IP address and leaves anything else as it is.
func withPort(addr string, port int) string {
	if _, err := netip.ParseAddr(addr); err != nil {
		return addr
	}
	return net.JoinHostPort(addr, strconv.Itoa(port))
}
