package nodekit_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker"
	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
	"github.com/nodekit-go/nodekit/staticpods"
)

// Example runs the manifests of a directory: a source of pods, a reconciler, and a
// container runtime, which lives in memory here.
func Example() {
	dir, err := os.MkdirTemp("", "nodekit")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	rt, err := runtimetest.New(runtimetest.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	if err := rt.Up(); err != nil {
		fmt.Println(err)
		return
	}
	client, err := runtime.Dial(context.Background(), rt.Endpoint(), runtime.Config{Dialer: rt.DialContext})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	manifests := filepath.Join(dir, "manifests")
	if err := os.MkdirAll(manifests, 0o755); err != nil {
		fmt.Println(err)
		return
	}
	manifest := []byte(`{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: "img.example/web:1"}]}}` + "\n")
	if err := os.WriteFile(filepath.Join(manifests, "web.yaml"), manifest, 0o644); err != nil {
		fmt.Println(err)
		return
	}

	ctx, stop := context.WithCancel(context.Background())
	node := podspec.Node{Name: "node-a", Instance: "agent-1", Root: dir + "/root", Logs: dir + "/logs"}
	show := func(pod *corev1.Pod, status corev1.PodStatus) {
		if status.Phase == corev1.PodRunning {
			fmt.Printf("%s is %s\n", pod.Name, status.Phase)
			stop()
		}
	}
	if err := runManifests(ctx, client, manifests, node, show); err != nil {
		fmt.Println(err)
	}
	// Output: web-node-a is Running
}

// runManifests keeps the pods of a directory running until ctx ends.
func runManifests(ctx context.Context, client *runtime.Client, dir string, node podspec.Node, show func(*corev1.Pod, corev1.PodStatus)) error {
	syncer, err := podsync.New(client, podsync.Config{Node: node, OnStatus: show})
	if err != nil {
		return err
	}
	pool, err := podworker.New(syncer, podworker.Config{Log: slog.Default()})
	if err != nil {
		return err
	}
	source, err := staticpods.Dir(dir, staticpods.Config{NodeName: node.Name})
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- pool.Run(ctx) }()
	err = source.Run(ctx, func(set staticpods.Set) {
		wanted := map[types.UID]bool{}
		for _, pod := range set.Pods {
			wanted[pod.UID] = true
			pool.Update(pod)
		}
		pool.Retain(maps.Keys(wanted)) // all others stop gracefully and are cleaned up
	})
	if poolErr := <-done; poolErr != nil {
		return poolErr
	}
	return err
}
