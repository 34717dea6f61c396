package record_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/record"
	"github.com/nodekit-go/nodekit/test/testnode"
)

var update = flag.Bool("update", false, "rewrite the golden lists")

// recorder stands between the programs of one node and what they call.
type recorder struct {
	settings map[string]any // of the kubelet
	api      map[string]*record.Log
	cri      record.Log
}

func newRecorder() *recorder {
	return &recorder{
		settings: map[string]any{},
		api:      map[string]*record.Log{"kubelet": {}, "kube-proxy": {}},
	}
}

// connect is for cluster.NodeConfig.Connect.
func (r *recorder) connect(ctx context.Context, t *testing.T, c cluster.Client) (string, error) {
	t.Helper()
	file, err := os.ReadFile(c.Kubeconfig)
	if err != nil {
		return "", err
	}
	api, err := record.NewAPI(file, record.APIConfig{Log: r.api[c.Program], Dial: c.Node.Dial})
	if err != nil {
		return "", err
	}
	l, err := c.Node.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	run(t, func(ctx context.Context) error { return api.Serve(ctx, l) })
	if c.Program == "kubelet" {
		if err := r.recordCRI(t, c); err != nil {
			return "", err
		}
	}
	kubeconfig, err := api.Kubeconfig(l.Addr())
	if err != nil {
		return "", err
	}
	name := c.Node.Dir("recorded-" + c.Program + ".kubeconfig")
	return name, os.WriteFile(name, kubeconfig, 0o600)
}

func (r *recorder) recordCRI(t *testing.T, c cluster.Client) error {
	t.Helper()
	proxy, err := record.NewCRI("unix://"+c.Node.Socket(), &r.cri)
	if err != nil {
		return err
	}
	socket := c.Node.Dir("recorded.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	run(t, func(ctx context.Context) error { return proxy.Serve(ctx, l) })
	r.settings["containerRuntimeEndpoint"] = "unix://" + socket
	return nil
}

// run runs a server until the test ends.
func run(t *testing.T, serve func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// service is what kube-proxy is for, load makes kubelets do what they do for a living.
const service = `
apiVersion: v1
kind: Service
metadata: {name: NAME}
spec: {selector: {app: NAME}, ports: [{port: 80}]}
`

// load is a pod with every kind of volume that is fetched from the API server.
const load = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {key: value}
---
apiVersion: v1
kind: Secret
metadata: {name: password}
stringData: {key: value}
---
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {app: NAME}}
spec:
  nodeName: NODE
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: IMAGE
    env:
    - {name: KEY, valueFrom: {configMapKeyRef: {name: settings, key: key}}}
    volumeMounts:
    - {name: all, mountPath: /all}
  volumes:
  - name: all
    projected:
      sources:
      - configMap: {name: settings}
      - secret: {name: password}
      - serviceAccountToken: {path: token}
---` + service

// What stock programs and ours ask for. The lists are the permissions that they need,
// and all that they may use: under the Node authorizer and NodeRestriction for a
// kubelet, under the role system:node-proxier for kube-proxy.
func TestKernelCallsOfNodePrograms(t *testing.T) {
	testnode.NeedTools(t)
	if err := cluster.Prepare(t.Context(), os.Stderr); err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Start(t.Context(), cluster.Config{Name: "record", Logs: t.ArtifactDir(), NoDNS: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	t.Run("stock", func(t *testing.T) { checkCalls(t, c, "stock", cluster.Stock) })
	t.Run("ours", func(t *testing.T) { checkCalls(t, c, "ours", cluster.Ours) })
}

func checkCalls(t *testing.T, c *cluster.Cluster, name string, source cluster.Source) {
	t.Helper()
	r := newRecorder()
	node, err := c.AddNode(t.Context(), cluster.NodeConfig{
		Kubelet: source, Proxy: source, KubeletSettings: r.settings,
		Connect: func(ctx context.Context, client cluster.Client) (string, error) { return r.connect(ctx, t, client) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		for _, p := range []*cluster.Program{node.Kubelet(), node.Proxy()} {
			if err := p.Stop(); err != nil {
				t.Error(err)
			}
		}
	}()
	runStaticPod(t, node)
	runPod(t, c, node, name)
	r.wait(t, name)
	for program, log := range r.api {
		record.CheckGolden(t, fmt.Sprintf("testdata/%s-%s.golden", name, program), log.Lines(), *update)
	}
	record.CheckGolden(t, fmt.Sprintf("testdata/%s-cri.golden", name), r.cri.Lines(), *update)
}

// wait gives the programs time to ask for more, and until they have asked for all that
// they have to: a status and a Lease come when they come.
func (r *recorder) wait(t *testing.T, name string) {
	t.Helper()
	more := time.NewTimer(15 * time.Second)
	defer more.Stop()
	select {
	case <-more.C:
	case <-t.Context().Done():
	}
	// What is missing at the end is told by the comparison.
	_ = testnode.Eventually(t.Context(), 2*time.Minute, "all calls", func(context.Context) error {
		missing := record.Missing(fmt.Sprintf("testdata/%s-cri.golden", name), r.cri.Lines())
		for program, log := range r.api {
			missing = append(missing, record.Missing(fmt.Sprintf("testdata/%s-%s.golden", name, program), log.Lines())...)
		}
		if len(missing) > 0 {
			return fmt.Errorf("%q did not come yet", missing)
		}
		return nil
	})
}

// runPod takes a pod of the API server through its life.
func runPod(t *testing.T, c *cluster.Cluster, node *cluster.Node, name string) {
	t.Helper()
	manifest := strings.NewReplacer("NAME", name, "NODE", node.NodeName(), "IMAGE", testnode.PauseRef).Replace(load)
	kubectl(t, c, manifest, "apply", "-f", "-")
	kubectl(t, c, "", "wait", "--for=condition=Ready", "--timeout=120s", "pod/"+name)
	kubectl(t, c, "", "logs", name)
	_, _ = c.Kubectl(t.Context(), "", "exec", name, "--", "/no-such-program")
	kubectl(t, c, "", "delete", "pod/"+name, "service/"+name, "--timeout=120s")
}

// runStaticPod takes a static pod through its life.
func runStaticPod(t *testing.T, node *cluster.Node) {
	t.Helper()
	file := filepath.Join(node.Manifests(), "static.yaml")
	manifest := `apiVersion: v1
kind: Pod
metadata: {name: static, namespace: default}
spec: {terminationGracePeriodSeconds: 1, containers: [{name: main, image: ` + testnode.PauseRef + `}]}
`
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	waitStatic(t, node, "runs", func(state runtimeapi.ContainerState) bool {
		return state == runtimeapi.ContainerState_CONTAINER_RUNNING
	})
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	waitStatic(t, node, "ended", func(state runtimeapi.ContainerState) bool {
		return state != runtimeapi.ContainerState_CONTAINER_RUNNING
	})
}

// waitStatic waits for a state of the static pod's container; gone counts as unknown.
func waitStatic(t *testing.T, node *cluster.Node, what string, ok func(runtimeapi.ContainerState) bool) {
	t.Helper()
	client, err := runtime.Dial(t.Context(), "unix://"+node.Socket(), runtime.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	err = testnode.Eventually(t.Context(), 2*time.Minute, "the static pod "+what, func(ctx context.Context) error {
		containers, err := client.ListContainers(ctx, &runtimeapi.ContainerFilter{
			LabelSelector: map[string]string{"io.kubernetes.pod.namespace": "default", "io.kubernetes.container.name": "main"},
		})
		if err != nil {
			return err
		}
		state := runtimeapi.ContainerState_CONTAINER_UNKNOWN
		if len(containers) > 0 {
			state = containers[0].GetState()
		}
		if !ok(state) {
			return fmt.Errorf("its container is %v", state)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func kubectl(t *testing.T, c *cluster.Cluster, input string, args ...string) {
	t.Helper()
	if out, err := c.Kubectl(t.Context(), input, args...); err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
