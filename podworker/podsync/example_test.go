package podsync_test

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// Example runs a pod on a runtime that lives in memory. On a node the client comes
// from runtime.Dial, and a podworker.Pool calls Sync.
func Example() {
	if err := runOnce(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// Pulling: Pulling image "img.example/web:1"
	// Pulled
	// Created: Container created
	// Started: Container started
	// default/web is Running
}

func runOnce(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "podsync")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	client, closeAll, err := fakeRuntime(ctx)
	if err != nil {
		return err
	}
	defer closeAll()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "img.example/web:1"}}},
	}

	syncer, err := podsync.New(client, podsync.Config{
		Node: podspec.Node{
			Name: "node-a", Instance: "agent-1", Root: dir + "/kubelet", Logs: dir + "/logs",
			DNS: podspec.DNS{ClusterDNS: []string{"10.96.0.10"}},
		},
		OnEvent: func(_ *corev1.Pod, e podsync.Event) {
			if e.Reason == "Pulled" {
				e.Message = "" // it tells how long it took
				fmt.Println(e.Reason)
				return
			}
			fmt.Printf("%s: %s\n", e.Reason, e.Message)
		},
		OnStatus: func(pod *corev1.Pod, st corev1.PodStatus) {
			if st.Phase == corev1.PodRunning {
				fmt.Printf("%s/%s is %s\n", pod.Namespace, pod.Name, st.Phase)
			}
		},
	})
	if err != nil {
		return err
	}
	_, err = syncer.Sync(ctx, pod)
	return err
}

// fakeRuntime returns a client of a runtime in memory, and how to end both.
func fakeRuntime(ctx context.Context) (*runtime.Client, func(), error) {
	server, err := runtimetest.New(runtimetest.Config{})
	if err != nil {
		return nil, nil, err
	}
	if err := server.Up(); err != nil {
		return nil, nil, err
	}
	client, err := runtime.Dial(ctx, server.Endpoint(), runtime.Config{Dialer: server.DialContext})
	if err != nil {
		server.Close()
		return nil, nil, err
	}
	return client, func() {
		_ = client.Close()
		server.Close()
	}, nil
}
