package proxy

import (
	"os"
	"strings"
	"testing"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/ipvs"
	"github.com/nodekit-go/nodekit/proxier/nftables"
	"github.com/nodekit-go/nodekit/proxier/proxiertest"
)

// TestInQemuNoConnectionIsLostBetweenModes goes from mode nftables to ipvs and back.
func TestInQemuNoConnectionIsLostBetweenModes(t *testing.T) {
	if !strings.HasPrefix(os.Getenv("NODEKIT_VM"), "qemu") {
		t.Skip("runs in a guest of hack/vm with qemu: make test-proxies")
	}
	tables := func(tb testing.TB, w *proxiertest.World) proxier.Backend {
		tb.Helper()
		b, err := nftables.New(nftables.Config{
			NetNS: w.NetNS(proxiertest.OurNode), Local: nftables.Local{ClusterCIDRs: proxiertest.PodRanges()},
		})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = b.Close() })
		return b
	}
	servers := func(tb testing.TB, w *proxiertest.World) proxier.Backend {
		tb.Helper()
		b, err := ipvs.New(ipvs.Config{
			NetNS: w.NetNS(proxiertest.OurNode), Local: ipvs.Local{ClusterCIDRs: proxiertest.PodRanges()},
		})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = b.Close() })
		return b
	}
	t.Run("from nftables to ipvs", func(t *testing.T) { proxiertest.Switch(t, tables, servers) })
	t.Run("from ipvs to nftables", func(t *testing.T) { proxiertest.Switch(t, servers, tables) })
}
