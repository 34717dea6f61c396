package proxy

import (
	"testing"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/iptables"
	"github.com/nodekit-go/nodekit/proxier/nftables"
	"github.com/nodekit-go/nodekit/proxier/proxiertest"
)

// TestKernelNoConnectionIsLostBetweenModes goes from each mode to the other: the new rules
// are in force before the old ones go.
func TestKernelNoConnectionIsLostBetweenModes(t *testing.T) {
	modes := map[string]func(tb testing.TB, w *proxiertest.World) proxier.Backend{
		"nftables": func(tb testing.TB, w *proxiertest.World) proxier.Backend {
			tb.Helper()
			b, err := nftables.New(nftables.Config{
				NetNS: w.NetNS(proxiertest.OurNode), Local: nftables.Local{ClusterCIDRs: proxiertest.PodRanges()},
			})
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(func() { _ = b.Close() })
			return b
		},
	}
	for _, v := range []iptables.Variant{iptables.NFT, iptables.Legacy} {
		modes["iptables-"+string(v)] = func(tb testing.TB, w *proxiertest.World) proxier.Backend {
			tb.Helper()
			b, err := iptables.New(iptables.Config{
				NetNS: w.NetNS(proxiertest.OurNode), Variant: v, Local: iptables.Local{ClusterCIDRs: proxiertest.PodRanges()},
			})
			if err != nil {
				tb.Fatal(err)
			}
			return b
		}
	}
	netnstest.NeedCommand(t, "iptables-legacy")
	for _, way := range [][2]string{
		{"iptables-nft", "nftables"},
		{"nftables", "iptables-nft"},
		{"iptables-legacy", "nftables"},
		{"nftables", "iptables-legacy"},
		{"iptables-legacy", "iptables-nft"},
	} {
		t.Run("from "+way[0]+" to "+way[1], func(t *testing.T) {
			t.Parallel()
			proxiertest.Switch(t, modes[way[0]], modes[way[1]])
		})
	}
}
