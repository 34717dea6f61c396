//go:build linux

package nftables

import (
	"context"
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
		return inspected{b}
	})
}

// inspected is a Backend that tells what is in force.
type inspected struct{ *Backend }

// Differences implements proxiertest.Inspector.
func (b inspected) Differences(ctx context.Context, s *proxier.State) ([]string, error) {
	changes, err := b.Plan(ctx, s)
	var lines []string
	for _, c := range changes {
		lines = append(lines, c.String())
	}
	return lines, err
}
