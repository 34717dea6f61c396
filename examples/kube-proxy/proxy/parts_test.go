package proxy

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/config"
	"github.com/nodekit-go/nodekit/proxier/conntrack"
	"github.com/nodekit-go/nodekit/proxier/sysctl"
)

// told is a target that notes what it is told.
type told struct {
	zone    string
	network proxier.Network
}

func (r *told) SetZone(z string)             { r.zone = z }
func (r *told) SetNetwork(n proxier.Network) { r.network = n }

func TestNodeTellsWhatChanges(t *testing.T) {
	addr, prefix := netip.MustParseAddr, netip.MustParsePrefix
	object := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-a", Labels: map[string]string{corev1.LabelTopologyZone: "z1"}},
		Spec:       corev1.NodeSpec{PodCIDRs: []string{"10.244.1.0/24", "fd00:1::/64"}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeExternalIP, Address: "192.0.2.7"},
			{Type: corev1.NodeHostName, Address: "node-a"},
			{Type: corev1.NodeInternalIP, Address: "10.0.0.2"},
			{Type: corev1.NodeInternalIP, Address: "10.0.0.3"},
			{Type: corev1.NodeExternalIP, Address: "2001:db8::7"},
		}},
	}
	r := &told{}
	n := &node{target: r, podCIDRs: true}
	n.setServiceCIDRs([]netip.Prefix{prefix("10.96.0.0/16")})
	n.set(object)
	want := told{zone: "z1", network: proxier.Network{
		NodeAddrs:    []netip.Addr{addr("10.0.0.2"), addr("2001:db8::7")},
		PodCIDRs:     []netip.Prefix{prefix("10.244.1.0/24"), prefix("fd00:1::/64")},
		ServiceCIDRs: []netip.Prefix{prefix("10.96.0.0/16")},
	}}
	equal := cmp.Comparer(func(a, b proxier.Network) bool { return a.Equal(b) })
	if diff := cmp.Diff(want, *r, cmp.AllowUnexported(told{}), equal); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if !n.isEligible() {
		t.Error("the node is not eligible")
	}
	object.Spec.Taints = []corev1.Taint{{Key: autoscalerTaint, Effect: corev1.TaintEffectNoSchedule}}
	n.set(object)
	if n.isEligible() {
		t.Error("a node that is about to be deleted is eligible")
	}
	n.set(nil)
	if n.isEligible() || len(r.network.NodeAddrs) != 2 {
		t.Errorf("without a Node it is eligible, or its addresses are forgotten: %v", r.network)
	}
	n.bindAddress = "10.0.0.9"
	object.Spec.Taints, object.DeletionTimestamp = nil, &metav1.Time{}
	n.set(object)
	if n.isEligible() || r.network.NodeAddrs[0] != addr("10.0.0.9") {
		t.Errorf("addresses are %v, want bindAddress first", r.network.NodeAddrs)
	}
}

// gathered returns the value of a metric as the registry prints it.
func gathered(t *testing.T, m *metrics, name string) map[string]float64 {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, s := range f.GetMetric() {
			var labels []string
			for _, l := range s.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			out[strings.Join(labels, ",")] = s.GetCounter().GetValue() + s.GetGauge().GetValue() + float64(s.GetHistogram().GetSampleCount())
		}
	}
	return out
}

func TestMetrics(t *testing.T) {
	m := newMetrics([]proxier.Family{proxier.IPv4})
	m.follow(func() proxier.Status { return proxier.Status{Pending: proxier.Changes{Services: 2, EndpointSlices: 3}} })
	m.observe(proxier.Round{Reset: true, Took: time.Second})
	m.observe(proxier.Round{Took: time.Millisecond, Triggers: []time.Time{time.Now()}})
	m.observe(proxier.Round{Err: errors.New("no")})
	m.answered("/healthz", 503)
	m.unswept(errors.New("no"))
	m.searched(conntrack.Search{Family: proxier.IPv4, Deleted: 3})
	port := func(name string, internal bool) *proxier.ServicePort {
		return &proxier.ServicePort{
			Key:          proxier.Key{PortName: proxier.PortName{Name: name}, Family: proxier.IPv4},
			HasEndpoints: true, InternalLocal: internal,
		}
	}
	m.without.Reset(&proxier.State{Ports: []*proxier.ServicePort{port("a", true), port("b", true), port("c", false)}})
	m.without.Applied(proxier.Delta{Update: []*proxier.ServicePort{port("a", false)}})
	for name, want := range map[string]map[string]float64{
		"kubeproxy_sync_proxy_rules_duration_seconds":                {"ip_family=IPv4": 3},
		"kubeproxy_sync_full_proxy_rules_duration_seconds":           {"ip_family=IPv4": 1},
		"kubeproxy_sync_partial_proxy_rules_duration_seconds":        {"ip_family=IPv4": 2},
		"kubeproxy_network_programming_duration_seconds":             {"ip_family=IPv4": 1},
		"kubeproxy_sync_proxy_rules_nftables_sync_failures_total":    {"ip_family=IPv4": 1},
		"kubeproxy_proxy_healthz_total":                              {"code=503": 1},
		"kubeproxy_conntrack_reconciler_deleted_entries_total":       {"ip_family=IPv4": 3},
		"kubeproxy_sync_proxy_rules_no_local_endpoints_total":        {"ip_family=IPv4,traffic_policy=internal": 1, "ip_family=IPv4,traffic_policy=external": 0},
		"kubeproxy_sync_proxy_rules_endpoint_changes_total":          {"": 0},
		"kubeproxy_sync_proxy_rules_service_changes_pending":         {"": 2},
		"kubeproxy_sync_proxy_rules_endpoint_changes_pending":        {"": 3},
		"kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total": {"ip_family=IPv4": 1},
	} {
		if diff := cmp.Diff(want, gathered(t, m, name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestConntrackOfDefaults(t *testing.T) {
	want := sysctl.Conntrack{MaxPerCore: 32768, Min: 131072, TCPEstablished: 24 * time.Hour, TCPCloseWait: time.Hour}
	if diff := cmp.Diff(want, conntrackOf(config.Default())); diff != "" {
		t.Errorf("conntrack (-want +got):\n%s", diff)
	}
}
