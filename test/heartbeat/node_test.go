package heartbeat_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/cluster/clustertest"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// kubelet's words.
const (
	readyMessage   = "kubelet is posting ready status"
	downMessage    = "container runtime is down"
	networkMessage = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:"
)

// noticed is how long the cluster may take to hear of a change: the node looks every
// five seconds, and this machine is busy.
const noticed = 30 * time.Second

func TestClusterKnowsHowTheNodeIs(t *testing.T) {
	clustertest.Require(t)
	t.Parallel()
	c := start(t, cluster.NodeConfig{})
	n := c.Node(0)
	awaitReady(t, n, 2*time.Minute, corev1.ConditionTrue, readyMessage)
	for _, step := range []struct {
		name string
		run  func(*testing.T, *cluster.Cluster, *cluster.Node)
	}{
		{"the Node is described completely", checkDescription},
		{"its Lease belongs to it", checkLease},
		{"the CNI configuration goes and comes back", checkNetwork},
		{"the API server goes and comes back", checkServer},
		{"the Node is deleted", checkDeletion},
		{"the runtime goes and comes back", checkRuntime},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, c, n) }) {
			return
		}
	}
}

// checkDescription wants every line of kubectl describe that the kubelet is for.
func checkDescription(t *testing.T, c *cluster.Cluster, n *cluster.Node) {
	t.Helper()
	err := testnode.Eventually(t.Context(), noticed, "a complete description", func(ctx context.Context) error {
		out, err := c.Kubectl(ctx, "", "describe", "node", n.NodeName())
		if err != nil {
			return err
		}
		for _, line := range description(n) {
			if !regexp.MustCompile(`(?s:.*)` + line).MatchString(out) {
				return fmt.Errorf("no line like %q in:\n%s", line, out)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	object, err := n.Object(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(object.Status.Images) == 0 || len(object.Status.Images[0].Names) == 0 {
		t.Errorf("images %v, want those of the runtime", object.Status.Images)
	}
	if port := object.Status.DaemonEndpoints.KubeletEndpoint.Port; port != 10250 {
		t.Errorf("the kubelet's port is %d", port)
	}
}

// description is what kubectl describe has to show of a healthy node.
func description(n *cluster.Node) []string {
	return []string{
		`Labels: +beta.kubernetes.io/arch=\w+`, `kubernetes.io/hostname=node-0`, `kubernetes.io/os=linux`,
		`volumes.kubernetes.io/controller-managed-attach-detach: true`,
		`HolderIdentity: +node-0`, `AcquireTime: +<unset>`, `RenewTime: +\w`,
		`MemoryPressure +False .* KubeletHasSufficientMemory +kubelet has sufficient memory available`,
		`DiskPressure +False .* KubeletHasNoDiskPressure +kubelet has no disk pressure`,
		`PIDPressure +False .* KubeletHasSufficientPID +kubelet has sufficient PID available`,
		`Ready +True .* KubeletReady +kubelet is posting ready status`,
		`InternalIP: +` + regexp.QuoteMeta(n.Address().String()), `Hostname: +node-0`,
		`(?s)Capacity:\s+cpu: +\d+\s+ephemeral-storage: +\d+\w*\s.*memory: +\d+\w*\s+pods: +110`,
		`(?s)Allocatable:\s+cpu: +\d+m?\s+ephemeral-storage: +\d+\w*\s.*memory: +\d+\w*\s+pods: +110`,
		`Machine ID: +\S`, `System UUID: +\S`, `Boot ID: +\S`, `Kernel Version: +\d`, `OS Image: +\S`,
		`Operating System: +linux`, `Architecture: +\w`, `Container Runtime Version: +containerd://\S+\d`,
		`Kubelet Version: +v1\.37\.2\+nodekit\.`,
		`Normal +NodeReady .*Node node-0 status is now: NodeReady`,
	}
}

// checkLease wants the Lease of a kubelet, owned by the Node as it is now.
func checkLease(t *testing.T, c *cluster.Cluster, n *cluster.Node) {
	t.Helper()
	object, err := n.Object(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("node-0 40 v1 Node node-0 %s", object.UID)
	err = testnode.Eventually(t.Context(), noticed, "a Lease of "+want, func(ctx context.Context) error {
		out, err := c.Kubectl(ctx, "", "-n", "kube-node-lease", "get", "lease", "node-0", "-o",
			"jsonpath={.spec.holderIdentity} {.spec.leaseDurationSeconds} {.metadata.ownerReferences[*]['apiVersion','kind','name','uid']}")
		if err == nil && out != want {
			err = errors.New(out)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func checkNetwork(t *testing.T, _ *cluster.Cluster, n *cluster.Node) {
	t.Helper()
	began := time.Now()
	if err := n.RemoveCNIConfig(); err != nil {
		t.Fatal(err)
	}
	c := awaitReady(t, n, noticed, corev1.ConditionFalse, networkMessage)
	if c.Reason != "KubeletNotReady" || !strings.Contains(c.Message, "cni plugin not initialized") {
		t.Errorf("the condition is %v", c)
	}
	checkMoment(t, c, began)
	began = time.Now()
	if err := n.WriteCNIConfig(); err != nil {
		t.Fatal(err)
	}
	c = awaitReady(t, n, noticed, corev1.ConditionTrue, readyMessage)
	checkMoment(t, c, began)
}

// checkMoment wants a transition between a moment and now.
func checkMoment(t *testing.T, c corev1.NodeCondition, began time.Time) {
	t.Helper()
	if at := c.LastTransitionTime.Time; at.Before(began.Truncate(time.Second)) || at.After(time.Now()) {
		t.Errorf("the transition was at %s, it began at %s", at, began)
	}
	if c.LastHeartbeatTime.Before(&c.LastTransitionTime) {
		t.Errorf("the heartbeat is at %s, before the transition at %s", c.LastHeartbeatTime, c.LastTransitionTime)
	}
}

// checkServer stops the API server for less than a Lease: nothing happens to the node.
func checkServer(t *testing.T, c *cluster.Cluster, n *cluster.Node) {
	t.Helper()
	before, err := n.Object(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.APIServer().Kill(); err != nil {
		t.Fatal(err)
	}
	if err := c.APIServer().Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	err = testnode.Eventually(t.Context(), noticed, "the Lease is renewed again", func(ctx context.Context) error {
		out, err := c.Kubectl(ctx, "", "-n", "kube-node-lease", "get", "lease", "node-0", "-o", "jsonpath={.spec.renewTime}")
		if err != nil {
			return err
		}
		at, err := time.Parse("2006-01-02T15:04:05.000000Z", out)
		if err == nil && at.Before(back) {
			err = fmt.Errorf("it was renewed %s before the API server came back", back.Sub(at))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	after := awaitReady(t, n, noticed, corev1.ConditionTrue, readyMessage)
	if want := ready(before).LastTransitionTime; !after.LastTransitionTime.Equal(&want) {
		t.Errorf("Ready changed at %s, want no change since %s", after.LastTransitionTime, want)
	}
}

func checkDeletion(t *testing.T, c *cluster.Cluster, n *cluster.Node) {
	t.Helper()
	before, err := n.Object(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Kubectl(t.Context(), "", "delete", "node", n.NodeName()); err != nil {
		t.Fatal(err)
	}
	err = testnode.Eventually(t.Context(), noticed, "the node is registered again", func(ctx context.Context) error {
		object, err := n.Object(ctx)
		if err == nil && object.UID == before.UID {
			err = errors.New("it is the old one")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	awaitReady(t, n, noticed, corev1.ConditionTrue, readyMessage)
	checkLease(t, c, n)
}

// checkRuntime stops the runtime: after half a minute it counts as down.
func checkRuntime(t *testing.T, _ *cluster.Cluster, n *cluster.Node) {
	t.Helper()
	if err := n.Runtime().Stop(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	c := awaitReady(t, n, noticed+30*time.Second, corev1.ConditionFalse, downMessage)
	checkMoment(t, c, began)
	if after := c.LastTransitionTime.Sub(began); after < 20*time.Second {
		t.Errorf("it counted as down after %s, want 30 s of silence", after)
	}
	began = time.Now()
	if err := n.Runtime().Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c = awaitReady(t, n, noticed, corev1.ConditionTrue, readyMessage)
	checkMoment(t, c, began)
}
