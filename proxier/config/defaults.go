package config

import (
	"cmp"
	"net"
	"net/netip"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	if cfg.MetricsBindAddress == "" {
		host := "127.0.0.1"
		if a, err := netip.ParseAddr(cfg.BindAddress); err == nil && a.Is6() {
			host = "::1"
		}
		cfg.MetricsBindAddress = host
	}
	cfg.MetricsBindAddress = withPort(cfg.MetricsBindAddress, DefaultMetricsPort)
	setHostDefaults(cfg)
	if cfg.NFTables.MasqueradeBit == nil {
		cfg.NFTables.MasqueradeBit = new(int32(DefaultMasqueradeBit))
	}
	if cfg.NFTables.SyncPeriod.Duration == 0 {
		cfg.NFTables.SyncPeriod.Duration = DefaultSyncPeriod
	}
	orElse(&cfg.IPTables.MasqueradeBit, int32(DefaultMasqueradeBit))
	orElse(&cfg.IPTables.LocalhostNodePorts, true)
	if cfg.IPTables.SyncPeriod.Duration == 0 {
		cfg.IPTables.SyncPeriod.Duration = DefaultSyncPeriod
	}
	if cfg.IPVS.SyncPeriod.Duration == 0 {
		cfg.IPVS.SyncPeriod.Duration = DefaultSyncPeriod
	}
	if cfg.DetectLocalMode == "" {
		cfg.DetectLocalMode = ClusterCIDR
	}
}

// setHostDefaults fills in what concerns the host and the client of the API server.
func setHostDefaults(cfg *Config) {
	orElse(&cfg.OOMScoreAdj, DefaultOOMScoreAdj)
	orElse(&cfg.Conntrack.MaxPerCore, DefaultMaxPerCore)
	orElse(&cfg.Conntrack.Min, DefaultConntrackMin)
	orElse(&cfg.Conntrack.TCPEstablishedTimeout, metav1.Duration{Duration: DefaultEstablished})
	orElse(&cfg.Conntrack.TCPCloseWaitTimeout, metav1.Duration{Duration: DefaultCloseWait})
	c := &cfg.ClientConnection
	c.ContentType = cmp.Or(c.ContentType, DefaultContentType)
	c.QPS = cmp.Or(c.QPS, DefaultQPS)
	c.Burst = cmp.Or(c.Burst, DefaultBurst)
	if cfg.ConfigSyncPeriod.Duration == 0 {
		cfg.ConfigSyncPeriod.Duration = DefaultConfigSyncPeriod
	}
}

func orElse[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}

// withPort appends the port to a bare IP address and leaves anything else as it is.
func withPort(addr string, port int) string {
	if _, err := netip.ParseAddr(addr); err != nil {
		return addr
	}
	return net.JoinHostPort(addr, strconv.Itoa(port))
}
