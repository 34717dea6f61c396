package proxy

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/nodekit-go/nodekit/proxier/iptables"
)

// iptablesCounters reads counters of the kernel; it is *iptables.Backend.
type iptablesCounters interface {
	Counters() (iptables.Counters, error)
}

// iptables adds the metrics of mode iptables, in the place of those of mode nftables, and
// returns who is told of each restore. The counters of the kernel are read when they are
// asked for.
func (m *metrics) iptables(counters func() iptablesCounters) func(iptables.Restore) {
	rules := func(name, help string) *prometheus.GaugeVec {
		return register(m, prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, []string{"table", family}))
	}
	failed := func(name, help string) *prometheus.CounterVec {
		return register(m, prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, []string{family}))
	}
	total := rules("sync_proxy_rules_iptables_total", "Rules of kube-proxy.")
	last := rules("sync_proxy_rules_iptables_last", "Rules written in the last round.")
	failures := failed("sync_proxy_rules_iptables_restore_failures_total", "Calls of iptables-restore that failed.")
	partial := failed("sync_proxy_rules_iptables_partial_restore_failures_total", "Calls of iptables-restore with changes that failed.")
	for _, f := range m.families {
		failures.WithLabelValues(f.String())
		partial.WithLabelValues(f.String())
	}
	m.packets("iptables_ct_state_invalid_dropped_packets_total", "Packets dropped because no connection can be told that they belong to.",
		counters, func(c iptables.Counters) uint64 { return c.InvalidDropped })
	m.packets("iptables_localhost_nodeports_accepted_packets_total", "Packets that opened connections to node ports at 127.0.0.1.",
		counters, func(c iptables.Counters) uint64 { return c.LocalNodePorts })
	m.withoutNFTables()
	return func(r iptables.Restore) {
		name := r.Family.String()
		if r.Err != nil {
			failures.WithLabelValues(name).Inc()
			if !r.Reset {
				partial.WithLabelValues(name).Inc()
			}
			return
		}
		for table, n := range map[string][2]int{"nat": {r.Total.NAT, r.Written.NAT}, "filter": {r.Total.Filter, r.Written.Filter}} {
			total.WithLabelValues(table, name).Set(float64(n[0]))
			last.WithLabelValues(table, name).Set(float64(n[1]))
		}
	}
}

// withoutNFTables removes the metrics of mode nftables.
func (m *metrics) withoutNFTables() {
	m.registry.Unregister(m.failures)
	m.registry.Unregister(m.cleanupFailures)
}

// packets adds a counter of the kernel. While it cannot be read it is 0.
func (m *metrics) packets(name, help string, counters func() iptablesCounters, of func(iptables.Counters) uint64) {
	register(m, prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, func() float64 {
		from := counters()
		if from == nil {
			return 0
		}
		c, err := from.Counters()
		if err != nil {
			return 0
		}
		return float64(of(c))
	}))
}
