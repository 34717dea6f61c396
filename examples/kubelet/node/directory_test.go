package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/examples/kubelet/node"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// realKubelet is a Node with its real parts: a directory of manifests, CRI over a
// unix socket, its local API on another. Only the runtime is a test's.
type realKubelet struct {
	t         *testing.T
	runtime   *runtimetest.Server
	manifests string
	root      string
}

// startReal starts one and ends it with the test.
func startReal(t *testing.T) *realKubelet {
	t.Helper()
	dir := t.TempDir()
	k := &realKubelet{
		t:         t,
		runtime:   runtimetest.StartUnix(t, runtimetest.Config{Images: []runtimetest.Image{{Name: shell}}}),
		manifests: filepath.Join(dir, "manifests"),
		root:      filepath.Join(dir, "root"),
	}
	if err := os.Mkdir(k.manifests, 0o755); err != nil {
		t.Fatal(err)
	}
	n, err := node.New(node.Config{
		Kubelet: &kubeletconfig.KubeletConfiguration{
			ContainerRuntimeEndpoint: k.runtime.Endpoint(),
			StaticPodPath:            k.manifests,
			FileCheckFrequency:       metav1.Duration{Duration: time.Second},
			PodLogsDir:               filepath.Join(dir, "logs"),
			HealthzPort:              new(int32(0)),
			EnableServer:             new(false),
		},
		Name: "node-a", Root: k.root, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Cgroups: podsync.CgroupDirs{},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		if _, err := os.Stat(filepath.Join(k.root, "kubelet.sock")); !os.IsNotExist(err) {
			t.Errorf("socket after the end: %v, want it gone", err)
		}
	})
	return k
}

// write writes a file in place, not by rename, as a careless editor does.
func (k *realKubelet) write(name, content string) {
	k.t.Helper()
	if err := os.WriteFile(filepath.Join(k.manifests, name), []byte(content), 0o600); err != nil {
		k.t.Fatal(err)
	}
}

// get asks the local API.
func (k *realKubelet) get(path string) (string, error) {
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(k.root, "kubelet.sock"))
		},
	}}
	resp, err := client.Get("http://kubelet" + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return string(body), err
}

// phases returns the phase of each pod.
func (k *realKubelet) phases() (map[string]corev1.PodPhase, error) {
	body, err := k.get("/pods")
	if err != nil {
		return nil, err
	}
	var list corev1.PodList
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		return nil, err
	}
	phases := map[string]corev1.PodPhase{}
	for _, p := range list.Items {
		phases[p.Name] = p.Status.Phase
	}
	return phases, nil
}

// eventually waits for something that happens soon.
func (k *realKubelet) eventually(what string, f func() error) {
	k.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(time.Minute)
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			k.t.Fatalf("wait until %s: %v", what, err)
		}
	}
}

// manifestOf returns a manifest with one variable in its environment.
func manifestOf(name, value string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: %s
spec:
  containers:
  - name: app
    image: %s
    imagePullPolicy: IfNotPresent
    env: [{name: V, value: "%s"}]
`, name, shell, value)
}

// TestManifestDirectory: good files run beside a broken one, a good one that is
// broken later runs on, is replaced once mended, and stops when its file goes.
func TestManifestDirectory(t *testing.T) {
	k := startReal(t)
	k.write("web.yaml", manifestOf("web", "1"))
	k.write("neighbour.yaml", manifestOf("neighbour", "1"))
	k.write("broken.yaml", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: broken\nspec:\n  containers:\n  - name: app\n    iamge: x\n")
	row := func(words ...string) func() error {
		return func() error {
			table, err := k.get("/manifests")
			if err == nil && !hasRow(table, words) {
				err = fmt.Errorf("no row with %q in\n%s", words, table)
			}
			return err
		}
	}
	k.eventually("the good manifests run", row("web.yaml", "ok", "default/web-node-a", "Running"))
	k.eventually("the good manifests run", row("neighbour.yaml", "ok", "Running"))
	k.eventually("the broken one is named", row("broken.yaml", "invalid", "line 8", "iamge"))
	web, err := k.runtime.ContainerID("default/web-node-a", "app")
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", manifestOf("web", "2")[:40], "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n"} {
		k.write("web.yaml", bad)
		k.eventually("the bad version is named", func() error {
			return row("web.yaml", "the pod of the last good version runs on", "Running")()
		})
	}
	if now, err := k.runtime.ContainerID("default/web-node-a", "app"); now != web || err != nil {
		t.Errorf("container is %s, %v; want %s untouched by bad versions", now, err, web)
	}
	k.write("web.yaml", manifestOf("web", "3"))
	k.eventually("the mended version replaces the old one", func() error {
		now, err := k.runtime.ContainerID("default/web-node-a", "app")
		if err == nil && now == web {
			err = fmt.Errorf("container is still %s", now)
		}
		return err
	})
	k.eventually("the mended version runs", row("web.yaml", "ok", "Running"))
	if err := os.Remove(filepath.Join(k.manifests, "web.yaml")); err != nil {
		t.Fatal(err)
	}
	k.eventually("the pod goes with its manifest", func() error {
		phases, err := k.phases()
		if err == nil && (len(phases) != 1 || phases["neighbour-node-a"] != corev1.PodRunning) {
			err = fmt.Errorf("pods are %v", phases)
		}
		return err
	})
	if got := len(k.runtime.Calls("RunPodSandbox")); got != 3 {
		t.Errorf("%d sandboxes were made, want 3: two at first, one for the mended version", got)
	}
}
