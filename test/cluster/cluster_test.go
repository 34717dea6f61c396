package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/cluster/clustertest"
	"github.com/nodekit-go/nodekit/test/conformance"
	"github.com/nodekit-go/nodekit/test/images"
	"github.com/nodekit-go/nodekit/test/testnode"
)

func TestStockClusterPassesSpecsAndLeavesNothing(t *testing.T) {
	clustertest.Require(t)
	checkNothingLeft(t)
	suites, err := images.Suites(t.Context(), images.Config{Progress: func(line string) { t.Log(line) }})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	c := clustertest.Start(t, cluster.Config{Name: "specs", Nodes: 2, Images: []string{suites}})
	t.Logf("up after %s", time.Since(began).Round(time.Second))
	t.Run("specs", func(t *testing.T) { runSpecs(t, c, "quick") })
	t.Run("identities", func(t *testing.T) { checkIdentities(t, c) })
	t.Run("host settings", func(t *testing.T) { checkHostSettings(t, c) })
	t.Run("parts end and come back", func(t *testing.T) { restartParts(t, c) })
	t.Run("a node more", func(t *testing.T) { addNode(t, c) })
	environments := c.Environments()
	if err := c.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	checkGone(t, environments)
}

// runSpecs runs a set of specs of the end-to-end suite and wants each one to pass.
func runSpecs(t *testing.T, c *cluster.Cluster, name string) {
	t.Helper()
	dir := t.TempDir()
	for tool, name := range map[string]string{"ginkgo": "ginkgo", "e2e": "e2e.test"} {
		path, err := testnode.ToolOf(t.Context(), tool, "test/tools/kubernetes")
		if err == nil {
			err = os.Symlink(path, filepath.Join(dir, name)) // ginkgo wants the suffix.
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	suite := filepath.Join(dir, "e2e.test")
	specs := specsOf(t, suite, name)
	out, err := c.Plane().Command(t.Context(), filepath.Join(dir, "ginkgo"),
		"--procs=6", "--no-color", "--succinct", "--silence-skips", "--focus="+conformance.FocusFor(specs), suite, "--",
		"--kubeconfig="+c.Kubeconfig(), "--provider=skeleton", "--disable-log-dump", "--allowed-not-ready-nodes=-1",
	).CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	var ran, all int
	_, tail, _ := strings.Cut(string(out), "Kubernetes e2e suite - ")
	if _, err := fmt.Sscanf(tail, "%d/%d specs", &ran, &all); err != nil || ran != len(specs) {
		t.Errorf("%d specs ran, want %d (%v):\n%s", ran, len(specs), err, out)
	}
}

// specsOf returns the full names of a set's specs.
func specsOf(t *testing.T, suite, name string) []string {
	t.Helper()
	set, err := conformance.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	list, err := exec.CommandContext(t.Context(), suite, "--list-tests").Output()
	if err != nil {
		t.Fatal(err)
	}
	all, err := conformance.ParseList(bytes.NewReader(list))
	if err != nil {
		t.Fatal(err)
	}
	specs, err := set.Select(all)
	if err != nil {
		t.Fatal(err)
	}
	if want := 10; len(specs) != want {
		t.Errorf("the set %s has %d specs, want %d", name, len(specs), want)
	}
	return specs
}

// checkIdentities asks the API server for whom it takes the node programs, and what
// it lets a kubelet do.
func checkIdentities(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	node := c.Node(0)
	for kubeconfig, user := range map[string]string{
		"kubelet.kubeconfig":    "system:node:node-0",
		"kube-proxy.kubeconfig": "system:kube-proxy",
	} {
		out, err := c.Kubectl(t.Context(), "", "--kubeconfig", node.Dir(kubeconfig), "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
		if err != nil || out != user {
			t.Errorf("%s is %q, want %q, %v", kubeconfig, out, user, err)
		}
	}
	label := func(name string) error {
		_, err := c.Kubectl(t.Context(), "", "--kubeconfig", node.Dir("kubelet.kubeconfig"), "label", "node", name, "node.kubernetes.io/test=x")
		return err
	}
	if err := label("node-0"); err != nil {
		t.Error(err)
	}
	if err := label("node-1"); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("a kubelet labels another node: %v, want it to be forbidden", err)
	}
}

// checkHostSettings wants the kubelet to change copies of the kernel's settings, and the
// runtime to see nothing of that.
func checkHostSettings(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	node := c.Node(0)
	covered := func(p *cluster.Program) bool {
		mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mounts", p.PID()))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(mounts), " /proc/sys/vm/overcommit_memory ")
	}
	if !covered(node.Kubelet()) {
		t.Error("the kubelet can change vm.overcommit_memory of the machine")
	}
	if covered(node.Runtime()) {
		t.Error("parts of the runtime's /proc are covered")
	}
}

// restartParts ends programs and looks whether the cluster notices and recovers.
func restartParts(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	node := c.Node(0)
	if err := node.RemoveCNIConfig(); err != nil {
		t.Fatal(err)
	}
	waitCondition(t, node, corev1.ConditionFalse)
	if err := node.WriteCNIConfig(); err != nil {
		t.Fatal(err)
	}
	waitCondition(t, node, corev1.ConditionTrue)
	for _, p := range []*cluster.Program{node.Runtime(), node.Kubelet(), node.Proxy(), c.APIServer(), c.Etcd()} {
		pid := p.PID()
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		if p.Running() || p.PID() != 0 {
			t.Errorf("%s runs after it was killed", p.Name())
		}
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if now := p.PID(); now == 0 || now == pid {
			t.Errorf("%s is process %d, and was %d before it was killed", p.Name(), now, pid)
		}
	}
	if err := c.APIServer().Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := node.Object(t.Context()); err == nil {
		t.Error("the API server answers after it was stopped")
	}
	if err := c.APIServer().Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitCondition(t, node, corev1.ConditionTrue)
}

// waitCondition waits until the node says that it is ready, or is not.
func waitCondition(t *testing.T, node *cluster.Node, want corev1.ConditionStatus) {
	t.Helper()
	what := "Ready is " + string(want)
	err := testnode.Eventually(t.Context(), time.Minute, what, func(ctx context.Context) error {
		object, err := node.Object(ctx)
		if err != nil {
			return err
		}
		for _, condition := range object.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == want {
				return nil
			}
		}
		return errors.New("it is not")
	})
	if err != nil {
		t.Fatal(err)
	}
}

func addNode(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	asked := map[string]bool{}
	node, err := c.AddNode(t.Context(), cluster.NodeConfig{
		Backend:         "iptables",
		Runtime:         cluster.Containerd2,
		KubeletSettings: map[string]any{"maxPods": 7},
		Connect: func(_ context.Context, client cluster.Client) (string, error) {
			asked[client.Program] = true
			return client.Kubeconfig, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !asked["kubelet"] || !asked["kube-proxy"] {
		t.Errorf("asked how to connect %v, want both programs", asked)
	}
	object, err := node.Object(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := object.Status.Capacity.Pods().Value(); got != 7 {
		t.Errorf("the node takes %d pods, want 7 as set", got)
	}
	if version := object.Status.NodeInfo.ContainerRuntimeVersion; !strings.HasPrefix(version, "containerd://v2") && !strings.HasPrefix(version, "containerd://2") {
		t.Errorf("the runtime is %s, want containerd 2", version)
	}
}

func TestControlPlanesSideBySide(t *testing.T) {
	clustertest.Require(t)
	checkNothingLeft(t)
	one, other := clustertest.Start(t, cluster.Config{Name: "one"}), clustertest.Start(t, cluster.Config{Name: "other"})
	if _, err := one.Kubectl(t.Context(), "", "create", "namespace", "only-here"); err != nil {
		t.Fatal(err)
	}
	if out, err := other.Kubectl(t.Context(), "", "get", "namespace", "only-here"); err == nil {
		t.Errorf("the other cluster knows the namespace: %s", out)
	}
	watchQuietResource(t, one)
	environments := one.Environments()
	if err := one.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkGone(t, environments)
	if _, err := other.Kubectl(t.Context(), "", "get", "--raw", "/readyz"); err != nil {
		t.Errorf("the other cluster after one has ended: %v", err)
	}
}

// watchQuietResource watches a resource that nobody writes, right after something else
// was written: the API server has to learn from etcd that its cache is as new as that.
func watchQuietResource(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	for i := range 5 { // A machine under load may miss the 3 s for which the API server waits.
		if _, err := c.Kubectl(t.Context(), "", "create", "configmap", "written-"+strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
		out, err := c.Kubectl(t.Context(), "", "get", "--raw", "/apis/node.k8s.io/v1/runtimeclasses?watch=1&timeoutSeconds=4")
		if err == nil && out == "" {
			return
		}
		t.Logf("attempt %d: %q, %v", i, out, err)
	}
	t.Error("no watch of a resource without objects lasted")
}
