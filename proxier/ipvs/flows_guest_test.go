//go:build linux

package ipvs

import (
	"context"
	"sync"
	"testing"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/proxiertest"
)

// The flows need a kernel with IPVS and nf_tables, which few hosts have: make test-vm runs
// them in a guest.
func TestInQemuPacketFlows(t *testing.T) {
	inQemu(t)
	var last *proxiertest.World
	stop := func() {}
	proxiertest.Run(t, func(tb testing.TB, w *proxiertest.World) proxier.Backend {
		tb.Helper()
		if w == last {
			stop() // as if the process were killed
		}
		b, err := New(Config{
			NetNS: w.NetNS(proxiertest.OurNode), Local: Local{ClusterCIDRs: proxiertest.PodRanges()},
			Problem: func(p Problem) { tb.Errorf("problem: %s", p) },
		})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = b.Close() })
		last, stop = w, watchUntil(tb, b)
		tb.Cleanup(stop)
		return inspected{b}
	})
}

// watchUntil runs Watch until the function it returns is called for the first time.
func watchUntil(tb testing.TB, b *Backend) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	done := make(chan error, 1)
	go func() { done <- b.Watch(ctx, func() {}) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			tb.Error(err)
		}
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
