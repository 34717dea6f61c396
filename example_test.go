package nodekit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

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
	log := slog.Default() // tells of manifests that are broken, too
	syncer, err := podsync.New(client, podsync.Config{Node: node, OnStatus: show, Log: log})
	if err != nil {
		return err
	}
	pool, err := podworker.New(syncer, podworker.Config{Log: log})
	if err != nil {
		return err
	}
	source, err := staticpods.Dir(dir, staticpods.Config{NodeName: node.Name, Log: log})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	sets, done := make(chan staticpods.Set), make(chan error, 2)
	go func() { done <- pool.Run(ctx) }()
	go func() {
		done <- source.Run(ctx, func(set staticpods.Set) {
			select {
			case sets <- set:
			case <-ctx.Done():
			}
		})
	}()
	wanted := map[types.UID]bool{}
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for heard := false; ; {
		select {
		case err := <-done: // ctx has ended, or one of the two cannot go on
			stop()
			return errors.Join(err, <-done)
		case set := <-sets:
			heard, wanted = true, take(pool, set)
		case <-tick.C:
		}
		if heard {
			collect(ctx, client, syncer, pool, wanted)
		}
	}
}

// take has the pods of a set run, and all others stop. What was put back starts anew.
func take(pool *podworker.Pool, set staticpods.Set) map[types.UID]bool {
	wanted := map[types.UID]bool{}
	for _, pod := range set.Pods {
		wanted[pod.UID] = !slices.Contains(set.PutBack, pod.UID)
	}
	pool.Retain(func(yield func(types.UID) bool) {
		for uid, stays := range wanted {
			if stays && !yield(uid) {
				return
			}
		}
	})
	for _, pod := range set.Pods {
		wanted[pod.UID] = true
		pool.Update(pod)
	}
	return wanted
}

// collect removes what is left of pods that no manifest names any more, and ends those that
// an earlier process has left running.
func collect(ctx context.Context, client *runtime.Client, syncer *podsync.Syncer, pool *podworker.Pool, wanted map[types.UID]bool) {
	left, err := syncer.Remains(ctx)
	if err != nil {
		slog.Error("look for what is left of pods", "err", err)
	}
	for _, uid := range left {
		if _, works := pool.State(uid); works || wanted[uid] || syncer.Forget(ctx, uid) == nil {
			continue
		}
		sandboxes, err := client.ListPodSandbox(ctx, &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{podspec.LabelPodUID: string(uid)}})
		if err != nil || len(sandboxes) == 0 {
			continue // the next look may tell
		}
		if pod, ok := podsync.Orphan(sandboxes[0]); ok { // those of other agents are left alone
			pool.TerminateOrphan(pod, podworker.Termination{})
		}
	}
}
