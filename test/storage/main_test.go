package storage_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	csiapi "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/nodekit-go/nodekit/podworker/volume/csi/csitest"
	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// driverFlag makes this program a CSI driver of that name, so that a node can run one.
var driverFlag = flag.String("driver", "", "serve a CSI driver of this name in place of tests")

// Where the driver is on the node.
const (
	kubeletRoot = "/var/lib/kubelet"
	driverDir   = "/var/lib/csi"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *driverFlag == "" {
		os.Exit(m.Run())
	}
	if err := serveDriver(*driverFlag); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serveDriver serves until SIGTERM.
func serveDriver(name string) error {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	d, err := csitest.Start(csitest.Config{
		Name: name, Dir: driverDir + "/" + name, Registry: kubeletRoot + "/plugins_registry", NodeID: "id-of-" + name,
		Capabilities: []csiapi.NodeServiceCapability_RPC_Type{csiapi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME},
	})
	if err != nil {
		return err
	}
	defer d.Stop()
	<-ctx.Done()
	if wrong := d.Misuse(); len(wrong) > 0 {
		return fmt.Errorf("the driver was misused: %q", wrong)
	}
	return nil
}

// requireHost skips the test where clusters cannot be started or where nobody asked
// for Kubernetes' programs.
func requireHost(tb testing.TB) {
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

// start starts a cluster with one node of this repository's kubelet, which ends with the
// test. Its logs stay when the test fails.
func start(t *testing.T) *cluster.Cluster {
	t.Helper()
	logs, err := os.MkdirTemp("", "nodekit-test-storage-") //nolint:usetesting // It stays when the test fails.
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Start(t.Context(), cluster.Config{
		Name: "storage", Logs: logs, Nodes: 1, NoDNS: true, NoWait: true,
		Node:     cluster.NodeConfig{Kubelet: cluster.Ours, Proxy: cluster.None},
		Progress: func(line string) { t.Log(line) },
	})
	if err != nil {
		t.Fatalf("%v (logs: %s)", err, logs)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the logs are in %s", logs)
		} else if err := os.RemoveAll(logs); err != nil {
			t.Error(err)
		}
	})
	return c
}

// startDriver has the node run a driver, which ends with the test.
func startDriver(t *testing.T, n *cluster.Node, name string) *testnode.Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := n.StartProcess(name, self, "-driver="+name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Error(err)
		}
	})
	return p
}
