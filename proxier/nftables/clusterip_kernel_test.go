//go:build linux

package nftables

import (
	"testing"

	"github.com/nodekit-go/nodekit/proxier"
)

func TestClusterIPSpreadsConnections(t *testing.T) {
	w := newWorld(t)
	serve(t, w.pod1, "10.244.1.11:8080")
	serve(t, w.pod2, "10.244.1.12:8080")
	serve(t, w.remote, "10.244.2.15:8080")
	serve(t, w.pod1, "[fd00:1::11]:8080")
	serve(t, w.pod2, "[fd00:1::12]:8080")
	serve(t, w.remote, "[fd00:2::15]:8080")
	v4 := []option{on("10.244.1.11:8080", "10.244.1.12:8080"), far("10.244.2.15:8080")}
	v6 := []option{on("[fd00:1::11]:8080", "[fd00:1::12]:8080"), far("[fd00:2::15]:8080")}
	b := newBackend(t, w.node, Config{Local: podNet()})
	reset(t, b,
		service("web", proxier.TCP, "10.96.0.10:80", v4...),
		service("web", proxier.UDP, "10.96.0.10:80", v4...),
		service("web", proxier.TCP, "[fd00:96::10]:80", v6...),
		service("web", proxier.UDP, "[fd00:96::10]:80", v6...))
	for _, tt := range []struct {
		network, addr string
	}{
		{"tcp", "10.96.0.10:80"},
		{"udp", "10.96.0.10:80"},
		{"tcp", "[fd00:96::10]:80"},
		{"udp", "[fd00:96::10]:80"},
	} {
		t.Run(tt.network+" "+tt.addr, func(t *testing.T) {
			for _, from := range []struct {
				name string
				got  map[string]int
			}{
				{"outside client", spread(t, w.client, tt.network, tt.addr, 90)},
				{"node", spread(t, w.node, tt.network, tt.addr, 90)},
				{"pod", spread(t, w.pod1, tt.network, tt.addr, 90)},
			} {
				if len(from.got) != 3 {
					t.Errorf("answers to the %s = %v; want all three endpoints", from.name, from.got)
				}
				for ep, n := range from.got {
					// Binomial(90, 1/3) is below 10 once in ten million runs.
					if n < 10 {
						t.Errorf("answers to the %s: %s answered %d of 90", from.name, ep, n)
					}
				}
			}
		})
	}
}
