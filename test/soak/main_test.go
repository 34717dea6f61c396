package soak

import (
	"os"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/internal/leakcheck"
	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/cluster/clustertest"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// TestShortSoak lives through some minutes of what make soak does for hours.
func TestShortSoak(t *testing.T) {
	clustertest.Require(t)
	dir, err := os.MkdirTemp("", "nodekit-soak-") //nolint:usetesting // It stays when the test fails.
	if err != nil {
		t.Fatal(err)
	}
	report, err := Run(t.Context(), Config{
		For: time.Minute, Kubelet: cluster.Ours, Proxy: cluster.Ours, Dir: dir, Seed: 1,
		Progress: func(line string) { t.Log(line) },
	})
	if err != nil {
		t.Errorf("%v (logs: %s)", err, dir)
	}
	if report != nil && !report.Passed() {
		if err := report.WriteTable(t.Output()); err != nil {
			t.Error(err)
		}
		t.Errorf("not all facts hold (logs: %s)", dir)
	}
	if t.Failed() {
		return
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}
