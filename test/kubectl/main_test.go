package kubectl_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/cluster/clustertest"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// patience is for a machine with much else to do.
const patience = 4 * time.Minute

// boxRef is an image that has BusyBox and nothing else.
const boxRef = "nodekit.test/busybox:1"

// objects are a pod with a shell, a pod that has failed once, a pod that reads its input, and
// a web server.
const objects = `
apiVersion: v1
kind: Pod
metadata: {name: box}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 1
  containers:
  - name: app
    image: nodekit.test/busybox:1
    args:
    - sh
    - -c
    - |
      busybox --install -s /
      echo line 1; echo line 2; echo line 3
      trap 'exit 0' TERM
      while :; do sleep 1; done
---
apiVersion: v1
kind: Pod
metadata: {name: again}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 1
  containers:
  - name: app
    image: nodekit.test/busybox:1
    args: [sh, -c, "if busybox mkdir /v/been 2>/dev/null; then echo first life; exit 1; fi; echo second life; exec busybox sleep 100000"]
    volumeMounts: [{name: v, mountPath: /v}]
  volumes: [{name: v, emptyDir: {}}]
---
apiVersion: v1
kind: Pod
metadata: {name: reader}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 1
  containers:
  - {name: app, image: "nodekit.test/busybox:1", args: [cat], stdin: true}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 1
  containers:
  - {name: app, image: "nodekit.test/web:1"}
`

// node is a cluster of one node with these pods.
type node struct {
	*cluster.Cluster
	t *testing.T
	// env is added to that of kubectl.
	env []string
}

// with is the same cluster for another test.
func (n *node) with(t *testing.T, env ...string) *node {
	t.Helper()
	return &node{Cluster: n.Cluster, t: t, env: env}
}

// start starts the cluster. It ends with the test, and its logs stay when the test fails.
func start(t *testing.T) *node {
	t.Helper()
	clustertest.Require(t)
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatalf("the image is made of the package busybox-static: %v", err)
	}
	// By its own name, whatever PATH calls it.
	program := filepath.Join(t.TempDir(), "busybox")
	data, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, data, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := testnode.ArchiveProgram(program+".tar", boxRef, program); err != nil {
		t.Fatal(err)
	}
	c := clustertest.Start(t, cluster.Config{
		Name: "kubectl", Nodes: 1, NoDNS: true, Images: []string{program + ".tar"},
		Node: cluster.NodeConfig{Kubelet: cluster.Ours, Proxy: cluster.None},
	})
	n := &node{Cluster: c, t: t}
	if err := c.Node(0).ImportImage(t.Context(), testnode.Web()); err != nil {
		t.Fatal(err)
	}
	n.run(objects, "apply", "-f", "-")
	n.run("", "wait", "--for=condition=Ready", "pod", "--all", "--timeout=4m")
	n.eventually("the pod that failed runs again", func(ctx context.Context) error {
		out, err := n.Kubectl(ctx, "", "get", "pod", "again", "-o", "jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}")
		if err == nil && out != "1 true" {
			err = fmt.Errorf("it is %s", out)
		}
		return err
	})
	return n
}

// command returns a command that runs kubectl.
func (n *node) command(ctx context.Context, args ...string) *exec.Cmd {
	n.t.Helper()
	cmd, err := n.KubectlCommand(ctx, args...)
	if err != nil {
		n.t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, n.env...)
	return cmd
}

// result is how kubectl ended.
type result struct {
	out, err string
	code     int
}

// try runs kubectl to its end.
func (n *node) try(input string, args ...string) result {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), patience)
	defer cancel()
	cmd := n.command(ctx, args...)
	cmd.Stdin = strings.NewReader(input)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	_ = cmd.Run() // the exit code tells
	if ctx.Err() != nil {
		n.t.Fatalf("kubectl %s did not end within %s:\n%s%s", strings.Join(args, " "), patience, &out, &complaint)
	}
	return result{out: out.String(), err: complaint.String(), code: cmd.ProcessState.ExitCode()}
}

// run runs kubectl, which has to succeed.
func (n *node) run(input string, args ...string) string {
	n.t.Helper()
	r := n.try(input, args...)
	if r.code != 0 {
		n.t.Fatalf("kubectl %s ended with %d:\n%s%s", strings.Join(args, " "), r.code, r.out, r.err)
	}
	return r.out
}

// eventually waits for something.
func (n *node) eventually(what string, check func(context.Context) error) {
	n.t.Helper()
	if err := testnode.Eventually(n.t.Context(), patience, what, check); err != nil {
		n.t.Fatal(err)
	}
}
