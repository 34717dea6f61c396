package podsource_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podsource"
)

func Example() {
	api := newServer() // client.CoreV1().Pods(metav1.NamespaceAll)
	api.put(newPod("web"))

	source, err := podsource.New(api, podsource.Config{Node: "node-a"})
	if err != nil {
		fmt.Println(err)
		return
	}
	merger, err := podsource.NewMerger(podsource.MergerConfig{}, "file", podsource.API)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		done <- source.Run(ctx, func(s podsource.Set) { _ = merger.Set(podsource.API, s.Pods) })
	}()
	_ = merger.Set("file", []*corev1.Pod{newPod("etcd")})
	_ = merger.Run(ctx, func(m podsource.Merged) {
		if !m.Complete {
			return // nothing may be stopped yet
		}
		for _, pod := range m.Pods {
			fmt.Println("has to run:", pod.Name)
		}
		stop()
	})
	fmt.Println(<-done)
	// Output:
	// has to run: etcd
	// has to run: web
	// <nil>
}
