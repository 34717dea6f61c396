package proxy

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/iptables"
	"github.com/nodekit-go/nodekit/proxier/ipvs"
)

var (
	_ programmer       = (*iptables.Backend)(nil)
	_ programmer       = (*ipvs.Backend)(nil)
	_ iptablesCounters = (*iptables.Backend)(nil)
)

func TestModeDecidesWhichSectionCounts(t *testing.T) {
	sections := "iptables: {syncPeriod: 40s, minSyncPeriod: 2s}\nnftables: {syncPeriod: 50s, minSyncPeriod: 3s}\nipvs: {syncPeriod: 60s, minSyncPeriod: 4s}\n"
	tests := []struct {
		name          string
		lines         string
		period, pause time.Duration
		primary       bool
	}{
		{"no mode", sections, 50 * time.Second, 3 * time.Second, true},
		{"nftables", "mode: nftables\n" + sections, 50 * time.Second, 3 * time.Second, true},
		{"iptables", "mode: iptables\n" + sections, 40 * time.Second, 2 * time.Second, false},
		{"ipvs", "mode: ipvs\n" + sections, 60 * time.Second, 4 * time.Second, false},
		{"ipvs without periods", "mode: ipvs\n", 30 * time.Second, 0, false},
		{"iptables without periods", "mode: iptables\n", 30 * time.Second, 0, false},
		{"iptables at primary addresses", "mode: iptables\nnodePortAddresses: [primary]\n", 30 * time.Second, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := Config{Proxy: fromFile(t, tt.lines)}
			if got := period(cfg.Proxy); got != tt.period {
				t.Errorf("period %v, want %v", got, tt.period)
			}
			if got := pause(cfg.Proxy); got != tt.pause {
				t.Errorf("pause %v, want %v", got, tt.pause)
			}
			if got, slow := flowsLeave(modeOf(cfg.Proxy)), strings.Contains(tt.lines, "mode: ipvs"); (got == ipvs.FlowsLeave) != slow || (got == 0) == slow {
				t.Errorf("flows leave after %v, with ipvs: %v", got, slow)
			}
			if primary, _ := nodePortAddresses(cfg); primary != tt.primary {
				t.Errorf("node ports at primary addresses alone: %v, want %v", primary, tt.primary)
			}
		})
	}
}

// counted3 has counted three packets of each kind.
type counted3 struct{}

func (counted3) Counters() (iptables.Counters, error) {
	return iptables.Counters{InvalidDropped: 3, LocalNodePorts: 3}, nil
}

func TestMetricsOfModeIPTables(t *testing.T) {
	m := newMetrics([]proxier.Family{proxier.IPv4})
	observe := m.iptables(func() iptablesCounters { return counted3{} })
	observe(iptables.Restore{Family: proxier.IPv4, Reset: true, Total: iptables.Rules{NAT: 9, Filter: 4}, Written: iptables.Rules{NAT: 8, Filter: 4}})
	observe(iptables.Restore{Family: proxier.IPv4, Total: iptables.Rules{NAT: 10, Filter: 4}, Written: iptables.Rules{NAT: 1}})
	observe(iptables.Restore{Family: proxier.IPv4, Err: errors.New("no")})
	observe(iptables.Restore{Family: proxier.IPv4, Reset: true, Err: errors.New("no")})
	for name, want := range map[string]map[string]float64{
		"kubeproxy_sync_proxy_rules_iptables_total":                          {"ip_family=IPv4,table=nat": 10, "ip_family=IPv4,table=filter": 4},
		"kubeproxy_sync_proxy_rules_iptables_last":                           {"ip_family=IPv4,table=nat": 1, "ip_family=IPv4,table=filter": 0},
		"kubeproxy_sync_proxy_rules_iptables_restore_failures_total":         {"ip_family=IPv4": 2},
		"kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total": {"ip_family=IPv4": 1},
		"kubeproxy_iptables_ct_state_invalid_dropped_packets_total":          {"": 3},
		"kubeproxy_iptables_localhost_nodeports_accepted_packets_total":      {"": 3},
		"kubeproxy_sync_proxy_rules_nftables_sync_failures_total":            {},
	} {
		got := gathered(t, m, name)
		for labels, value := range want {
			if v, ok := got[labels]; !ok || v != value {
				t.Errorf("%s = %v, want %v", name, got, want)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
}

func TestNewLogsAChosenMode(t *testing.T) {
	var log bytes.Buffer
	cfg := Config{SourceDir: t.TempDir(), Proxy: fromFile(t, "mode: iptables\n"), Log: slog.New(slog.NewTextHandler(&log, nil))}
	if _, err := New(cfg); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(log.String(), "nftables") {
		t.Errorf("the log speaks of nftables:\n%s", &log)
	}
}
