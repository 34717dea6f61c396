package node_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// The fake runtime passes the same table in its own package: what holds for all of
// them is what a test against the fake proves.
func TestContainerdConformsToRuntimeTable(t *testing.T) {
	checkConformance(t, useNode(t).Node)
}

// The distribution's containerd lacks events, RuntimeConfig and more; this one does not.
func TestContainerd2ConformsToRuntimeTable(t *testing.T) {
	requireHost(t)
	testnode.NeedTools(t)
	dir := t.TempDir()
	if err := testnode.ToolFolder(t.Context(), dir, "containerd", "containerd-shim-runc-v2", "ctr"); err != nil {
		t.Fatal(err)
	}
	node, err := testnode.Start(t.Context(), testnode.Config{Name: "containerd2", Logs: t.ArtifactDir(), Containerd: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	for _, image := range []testnode.Image{testnode.Pause(), testnode.Life()} {
		if err := node.ImportImage(t.Context(), image); err != nil {
			t.Fatal(err)
		}
	}
	checkConformance(t, node)
	t.Run("its logs are followed across rotations", func(t *testing.T) { checkFollowedLog(t, node) })
}

func checkConformance(t *testing.T, node *testnode.Node) {
	t.Helper()
	runtimetest.Conformance(t, runtimetest.Target{
		Dial: func(ctx context.Context, cfg runtime.Config) (*runtime.Client, error) {
			return runtime.Dial(ctx, "unix://"+node.Socket(), cfg)
		},
		Image:        testnode.Life().Ref,
		CgroupParent: node.CgroupRoot() + "/conformance",
		Args: func(_ string, life runtimetest.Life) []string {
			var args []string
			if life.Exit != nil {
				args = append(args, "-for", max(life.Exit.After, time.Millisecond).String(), "-exit", strconv.Itoa(int(life.Exit.Code)))
			}
			if life.IgnoreTerm {
				args = append(args, "-ignore-term")
			}
			return args
		},
		Exec: func(result runtimetest.ExecResult) []string {
			return []string{"/life", "-for", max(result.After, time.Millisecond).String(), "-exit", strconv.Itoa(int(result.Code))}
		},
	})
}
