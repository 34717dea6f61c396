//go:build linux

package nftables

import (
	"testing"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/proxiertest"
)

func TestKernelPacketFlows(t *testing.T) {
	proxiertest.Run(t, func(tb testing.TB, w *proxiertest.World) proxier.Backend {
		tb.Helper()
		b, err := New(Config{
			NetNS: w.NetNS(proxiertest.OurNode), Local: Local{ClusterCIDRs: proxiertest.PodRanges()},
			Problem: func(p Problem) { tb.Errorf("problem: %s", p) },
		})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = b.Close() })
		return b
	})
}
