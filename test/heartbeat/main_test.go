package heartbeat_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/cluster/clustertest"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// kubeletVariable names a kubelet to be tested in place of the one that is compiled from
// the working tree.
const kubeletVariable = "HEARTBEAT_KUBELET"

// start starts a cluster with one node, which ends with the test. Its logs stay when the
// test fails.
func start(t *testing.T, node cluster.NodeConfig) *cluster.Cluster {
	t.Helper()
	node.Proxy = cluster.None
	node.Kubelet = cluster.Ours
	if path := os.Getenv(kubeletVariable); path != "" {
		node.Kubelet = cluster.Source(path)
	}
	return clustertest.Start(t, cluster.Config{Name: "heartbeat", Nodes: 1, Node: node, NoWait: true})
}

// awaitReady waits until the node's condition Ready has a status and a message that
// begins with a text.
func awaitReady(t *testing.T, n *cluster.Node, patience time.Duration, status corev1.ConditionStatus, message string) corev1.NodeCondition {
	t.Helper()
	var found corev1.NodeCondition
	err := testnode.Eventually(t.Context(), patience, fmt.Sprintf("Ready is %s: %s", status, message), func(ctx context.Context) error {
		object, err := n.Object(ctx)
		if err != nil {
			return err
		}
		found = ready(object)
		if found.Status != status || !strings.HasPrefix(found.Message, message) {
			return fmt.Errorf("it is %s: %s", found.Status, found.Message)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// ready returns the condition Ready of a Node, empty if it has none.
func ready(n *corev1.Node) corev1.NodeCondition {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c
		}
	}
	return corev1.NodeCondition{}
}
