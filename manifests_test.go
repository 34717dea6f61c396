package nodekit_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// TestExampleLeavesNothing: a pod whose manifest goes while no agent runs is ended by the
// next one, and nothing of it is left on the runtime or on the disk.
func TestExampleLeavesNothing(t *testing.T) {
	rt := runtimetest.Start(t, runtimetest.Config{Images: []runtimetest.Image{{Name: "img.example/web:1"}}})
	client, err := runtime.Dial(t.Context(), rt.Endpoint(), runtime.Config{Dialer: rt.DialContext})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	dir := t.TempDir()
	manifests := filepath.Join(dir, "manifests")
	if err := os.Mkdir(manifests, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(manifests, "web.yaml")
	text := `{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: "img.example/web:1"}]}}` + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	node := podspec.Node{Name: "node-a", Instance: "agent-1", Root: dir + "/root", Logs: dir + "/logs"}
	run := func(until func(stop func()), show func(stop func(), status corev1.PodStatus)) {
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
		defer stop()
		go until(stop)
		if err := runManifests(ctx, client, manifests, node, func(_ *corev1.Pod, s corev1.PodStatus) { show(stop, s) }); err != nil {
			t.Fatal(err)
		}
	}
	run(func(func()) {}, func(stop func(), s corev1.PodStatus) {
		if s.Phase == corev1.PodRunning {
			stop()
		}
	})
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	gone := false
	run(func(stop func()) {
		defer stop()
		for range 1000 {
			list, err := client.ListPodSandbox(t.Context(), nil)
			pods, _ := os.ReadDir(filepath.Join(node.Root, "pods"))
			if gone = err == nil && len(list) == 0 && len(pods) == 0; gone {
				return
			}
			<-time.After(100 * time.Millisecond)
		}
	}, func(func(), corev1.PodStatus) {})
	if !gone {
		t.Error("something of the pod is left")
	}
}
