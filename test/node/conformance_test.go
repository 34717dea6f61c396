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

// The fake runtime passes the same table in its own package: what holds for both
// is what a test against the fake proves.
func TestContainerdConformsToRuntimeTable(t *testing.T) {
	node := useNode(t)
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
