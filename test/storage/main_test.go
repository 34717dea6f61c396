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
		Capabilities: []csiapi.NodeServiceCapability_RPC_Type{
			csiapi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, csiapi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		},
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
