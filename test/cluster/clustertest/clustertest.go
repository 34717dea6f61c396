// Package clustertest starts clusters for tests, which end with them.
package clustertest

import (
	"context"
	"os"
	"testing"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// Require skips the test where clusters cannot be started or where nobody asked for
// Kubernetes' programs.
func Require(tb testing.TB) {
	tb.Helper()
	testnode.NeedTools(tb)
	err := testnode.Prepare(tb.Context())
	switch {
	case err == nil:
	case testnode.Required():
		tb.Fatal(err)
	default:
		tb.Skip(err)
	}
	if err := cluster.Prepare(tb.Context(), os.Stderr); err != nil {
		tb.Fatal(err)
	}
}

// Start starts a cluster that ends with the test. Its progress is the test's, and its logs
// stay when the test fails.
func Start(tb testing.TB, cfg cluster.Config) *cluster.Cluster {
	tb.Helper()
	return start(tb, cfg, cluster.Start)
}

// StartSelfHosted is Start for [cluster.StartSelfHosted].
func StartSelfHosted(tb testing.TB, cfg cluster.Config) *cluster.Cluster {
	tb.Helper()
	return start(tb, cfg, cluster.StartSelfHosted)
}

func start(tb testing.TB, cfg cluster.Config, run func(context.Context, cluster.Config) (*cluster.Cluster, error)) *cluster.Cluster {
	tb.Helper()
	logs, err := os.MkdirTemp("", "nodekit-test-") //nolint:usetesting // It stays when the test fails.
	if err != nil {
		tb.Fatal(err)
	}
	cfg.Logs = logs
	cfg.Progress = func(line string) { tb.Log(line) }
	c, err := run(tb.Context(), cfg)
	if err != nil {
		tb.Fatalf("%v (logs: %s)", err, logs)
	}
	tb.Cleanup(func() {
		if err := c.Stop(context.WithoutCancel(tb.Context())); err != nil {
			tb.Error(err)
		}
		if tb.Failed() {
			tb.Logf("the logs are in %s", logs)
		} else if err := os.RemoveAll(logs); err != nil {
			tb.Error(err)
		}
	})
	return c
}
