package proxy

import (
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/proxiertest"
)

// Before the Node is known, and where it cannot be seen, node ports are limited to the
// addresses that the host would use: nowhere is open for want of them.
func TestNodeAddressesAreKnownBeforeTheNode(t *testing.T) {
	w, err := newWiring(Config{
		NodeName: "node-a", Client: &rest.Config{Host: "http://192.0.2.1"}, Backend: proxiertest.NewBackend(t),
		Proxy: fromFile(t, "bindAddress: 192.0.2.9\n"), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.loop(); err != nil {
		t.Fatal(err)
	}
	r := &told{}
	w.node.target = r
	w.node.setServiceCIDRs([]netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")})
	if len(r.network.NodeAddrs) == 0 || r.network.NodeAddrs[0] != netip.MustParseAddr("192.0.2.9") {
		t.Errorf("addresses of the node are %v, want bindAddress first", r.network.NodeAddrs)
	}
}

func TestWhatABackendCannotDoIsAProblem(t *testing.T) {
	m := newMetrics([]proxier.Family{proxier.IPv4})
	w := &wiring{metrics: m, problems: newProblems(m, nil, slog.New(slog.DiscardHandler))}
	w.hooks().degraded(errors.New("no ip6tables"))
	if diff := cmp.Diff(map[string]string{aboutRules: "no ip6tables"}, w.problems.all()); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	w.hooks().degraded(nil)
	if len(w.problems.all()) > 0 {
		t.Errorf("afterwards, problems are %v", w.problems.all())
	}
	for _, about := range abouts() {
		if reasonOf(about) == "" {
			t.Errorf("problems about %s have no reason for events", about)
		}
	}
}

func TestNodePortsAtLoopbackInModeIPTables(t *testing.T) {
	tests := []struct {
		name, lines, at string
		want            bool
	}{
		{"by default", "", "127.0.0.1:30080", true},
		{"all of them", "", "127.0.0.5:30080", true},
		{"IPv6", "", "[::1]:30080", false},
		{"not one", "", "10.0.0.3:30080", false},
		{"switched off", "iptables: {localhostNodePorts: false}\n", "127.0.0.1:30080", false},
		{"limited to others", "nodePortAddresses: [192.0.2.0/24]\n", "127.0.0.1:30080", false},
		{"limited in the other family", "nodePortAddresses: ['2001:db8::/32']\n", "127.0.0.1:30080", true},
		{"primary", "nodePortAddresses: [primary]\n", "127.0.0.1:30080", false},
		{"named", "nodePortAddresses: [192.0.2.0/24, 127.0.0.0/8]\n", "127.0.0.1:30080", true},
		{"a neighbour of the one that is named", "nodePortAddresses: [127.0.0.0/8]\n", "127.0.0.5:30080", false},
		{"all addresses", "nodePortAddresses: [0.0.0.0/0]\n", "127.0.0.5:30080", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := Config{Proxy: fromFile(t, "mode: iptables\n"+tt.lines)}
			at := netip.MustParseAddrPort(tt.at)
			q := unguarded(cfg, proxier.Query{Addr: at}, proxier.Network{NodeAddrs: []netip.Addr{netip.MustParseAddr("192.0.2.9")}})
			if got := slices.Contains(q.NodePortAddrs, at.Addr()); got != tt.want || !q.Unguarded {
				t.Errorf("node ports answer: %v, want %v; unguarded: %v", got, tt.want, q.Unguarded)
			}
		})
	}
}
