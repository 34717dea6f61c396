package node_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nodekit-go/nodekit/test/testnode"
)

// suite is the node that the tests of this package share. The programs under test
// are started and ended by the tests.
type suite struct {
	*testnode.Node
	// The programs under test are compiled when the first test asks for them.
	kubeletBinary   func() (string, error)
	kubeProxyBinary func() (string, error)
}

// shared is the suite, or why there is none; see useNode.
var shared struct {
	suite *suite
	err   error
}

func TestMain(m *testing.M) {
	if logs := os.Getenv(crashVariable); logs != "" {
		crash(logs)
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	ctx := context.Background()
	if shared.err = testnode.Prepare(ctx); shared.err != nil {
		return m.Run()
	}
	logs, err := os.MkdirTemp("", "nodekit-test-node-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	shared.suite, shared.err = startSuite(ctx, logs)
	code := m.Run()
	if shared.suite != nil {
		if err := shared.suite.Stop(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if code != 0 {
		fmt.Fprintln(os.Stderr, "the logs of the node are in", logs)
	} else if err := os.RemoveAll(logs); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func startSuite(ctx context.Context, logs string) (*suite, error) {
	node, err := testnode.Start(ctx, testnode.Config{Name: "test", Logs: logs})
	if err != nil {
		return nil, err
	}
	for _, image := range []testnode.Image{testnode.Pause(), testnode.Web(), testnode.Life()} {
		if err := node.ImportImage(ctx, image); err != nil {
			return nil, errors.Join(err, node.Stop(ctx))
		}
	}
	build := func(pkg string) func() (string, error) {
		return sync.OnceValues(func() (string, error) {
			return testnode.Build(ctx, filepath.Join(logs, "bin"), pkg)
		})
	}
	return &suite{
		Node:            node,
		kubeletBinary:   build("examples/kubelet"),
		kubeProxyBinary: build("examples/kube-proxy"),
	}, nil
}

// requireHost skips the test where nodes cannot be started, unless
// REQUIRE_KERNEL=1 says that they must.
func requireHost(tb testing.TB) {
	tb.Helper()
	err := testnode.Prepare(tb.Context())
	switch {
	case err == nil:
	case testnode.Required():
		tb.Fatal(err)
	default:
		tb.Skip(err)
	}
}

// useNode returns the shared node.
func useNode(tb testing.TB) *suite {
	tb.Helper()
	requireHost(tb)
	if shared.suite == nil {
		tb.Fatal(shared.err)
	}
	return shared.suite
}
