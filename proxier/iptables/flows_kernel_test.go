//go:build linux

package iptables

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/proxiertest"
)

// onKernel runs f for both variants, side by side.
func onKernel(t *testing.T, f func(t *testing.T, v Variant)) {
	t.Helper()
	for _, v := range []Variant{NFT, Legacy} {
		t.Run(string(v), func(t *testing.T) {
			t.Parallel()
			netnstest.NeedCommand(t, "iptables-"+string(v))
			f(t, v)
		})
	}
}

// commandsIn runs commands in a namespace. The lock of iptables is one for the whole
// machine; here it is the test's own.
func commandsIn(tb testing.TB, netns string) hostExec {
	tb.Helper()
	return hostExec{netns: netns, env: []string{"XTABLES_LOCKFILE=" + filepath.Join(tb.TempDir(), "lock")}}
}

// backendIn returns a Backend of a namespace.
func backendIn(tb testing.TB, netns string, cfg Config) *Backend {
	tb.Helper()
	cfg.NetNS = netns
	if cfg.Exec == nil {
		cfg.Exec = commandsIn(tb, netns)
	}
	if cfg.Problem == nil {
		cfg.Problem = func(p Problem) { tb.Errorf("problem: %s", p) }
	}
	b, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestKernelPacketFlows(t *testing.T) {
	onKernel(t, func(t *testing.T, v Variant) {
		t.Helper()
		proxiertest.Run(t, func(tb testing.TB, w *proxiertest.World) proxier.Backend {
			tb.Helper()
			return inspected{backendIn(tb, w.NetNS(proxiertest.OurNode), Config{
				Variant: v, Local: Local{ClusterCIDRs: proxiertest.PodRanges()}, LocalhostNodePorts: true,
			})}
		})
	})
}

// inspected is a Backend that tells what is in force.
type inspected struct{ *Backend }

// Differences implements proxiertest.Inspector.
func (b inspected) Differences(ctx context.Context, s *proxier.State) ([]string, error) {
	return b.Plan(ctx, s)
}
