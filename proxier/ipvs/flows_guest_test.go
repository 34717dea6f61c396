//go:build linux

package ipvs

import (
	"context"
	"testing"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/proxiertest"
)

// The flows need a kernel with IPVS and nf_tables, which few hosts have: make test-vm runs
// them in a guest.
func TestInQemuPacketFlows(t *testing.T) {
	inQemu(t)
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
	return b.Plan(ctx, s)
}

// PinsByFrontend implements proxiertest.FrontendPins: IPVS pins a client for each virtual
// server.
func (b inspected) PinsByFrontend() bool { return true }
