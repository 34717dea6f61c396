package cluster_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/cluster/clustertest"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// TestNodeOnARuntimeOfSomebodyElse gives a node the socket of a runtime that runs in a
// network namespace of its own, with a pod that is none of the cluster's business.
func TestNodeOnARuntimeOfSomebodyElse(t *testing.T) {
	clustertest.Require(t)
	checkNothingLeft(t)
	theirs, stranger := runtimeWithAPod(t)
	want := []string{stranger.Sandbox}
	t.Run("stopped", func(t *testing.T) {
		c := clustertest.Start(t, cluster.Config{Name: "guest", Nodes: 1, Node: cluster.NodeConfig{Runtime: cluster.Runtime(theirs.Socket())}})
		if err := c.Node(0).Runtime().Start(t.Context()); err == nil {
			t.Error("somebody else's runtime was started")
		}
		checkUse(t, theirs)
		environments := c.Environments()
		if err := c.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		checkGone(t, environments)
		checkUntouched(t, theirs, want)
	})
	t.Run("killed", func(t *testing.T) {
		program, environments := startCrashing(t, cluster.Runtime(theirs.Socket()))
		kill(t, program)
		checkUse(t, theirs)
		clean(t, environments)
		checkUntouched(t, theirs, want)
	})
}

// runtimeWithAPod starts the runtime of somebody else.
func runtimeWithAPod(t *testing.T) (*testnode.Node, testnode.StrangerIDs) {
	t.Helper()
	theirs, err := testnode.Start(t.Context(), testnode.Config{
		Name: "theirs", Logs: t.TempDir(),
		Network: func(context.Context, *testnode.Node) error { return nil }, // The cluster's hub uses its addresses.
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := theirs.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	for _, image := range []testnode.Image{testnode.Pause(), testnode.Web()} {
		if err := theirs.ImportImage(t.Context(), image); err != nil {
			t.Fatal(err)
		}
	}
	stranger, err := theirs.RunStranger(t.Context(), testnode.Stranger{Name: "theirs", Image: testnode.Web().Ref})
	if err != nil {
		t.Fatal(err)
	}
	return theirs, stranger
}

// checkUse wants pods, rules and the link of a cluster, so that their absence later
// says something.
func checkUse(t *testing.T, theirs *testnode.Node) {
	t.Helper()
	if got := sandboxes(t, theirs); len(got) < 2 {
		t.Errorf("the runtime has the sandboxes %v, want one of CoreDNS besides the stranger's", got)
	}
	if got := traffic(t, theirs); !strings.Contains(got, "kube-proxy") || !strings.Contains(got, "nodekit0") {
		t.Errorf("their namespace has %q, want rules and a link of the cluster", got)
	}
}

// checkUntouched wants the runtime as it was.
func checkUntouched(t *testing.T, theirs *testnode.Node, want []string) {
	t.Helper()
	if diff := cmp.Diff(want, sandboxes(t, theirs)); diff != "" {
		t.Errorf("sandboxes after the cluster (-want +got):\n%s", diff)
	}
	if got := traffic(t, theirs); got != "" {
		t.Errorf("left in their namespace: %s", got)
	}
}

// traffic lists what a cluster adds to a network namespace.
func traffic(t *testing.T, node *testnode.Node) string {
	t.Helper()
	const list = "nft list tables | grep -i kube; ip -o link | grep nodekit; iptables-save | grep KUBE; true"
	out, err := node.Command(t.Context(), "sh", "-c", list).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func sandboxes(t *testing.T, node *testnode.Node) []string {
	t.Helper()
	list, err := node.CRI().Runtime.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, sandbox := range list.GetItems() {
		ids = append(ids, sandbox.GetId())
	}
	return ids
}
