package cluster_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// TestNodeOnARuntimeOfSomebodyElse gives a node the socket of a runtime that runs in a
// network namespace of its own, with a pod that is none of the cluster's business.
func TestNodeOnARuntimeOfSomebodyElse(t *testing.T) {
	requireHost(t)
	checkNothingLeft(t)
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

	c := start(t, cluster.Config{Name: "guest", Nodes: 1, Node: cluster.NodeConfig{Runtime: cluster.Runtime(theirs.Socket())}})
	if err := c.Node(0).Runtime().Start(t.Context()); err == nil {
		t.Error("somebody else's runtime was started")
	}
	if got := sandboxes(t, theirs); len(got) < 2 {
		t.Errorf("the runtime has the sandboxes %v, want one of CoreDNS besides the stranger's", got)
	}
	environments := c.Environments()
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkGone(t, environments)
	if diff := cmp.Diff([]string{stranger.Sandbox}, sandboxes(t, theirs)); diff != "" {
		t.Errorf("sandboxes after the cluster (-want +got):\n%s", diff)
	}
	out, err := theirs.Command(t.Context(), "sh", "-c", "nft list tables | grep kube; ip -o link | grep nodekit").CombinedOutput()
	if len(out) > 0 {
		t.Errorf("left in their namespace: %s (%v)", out, err)
	}
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
