package statuswriter_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/statuswriter"
)

func Example() {
	api := newServer(newPod("job", "u1")) // with client-go: client.CoreV1().Pods
	told := make(chan types.UID)
	w, err := statuswriter.Open(statuswriter.Config{
		Pods:  func(namespace string) statuswriter.Pods { return api.client(namespace) },
		Hooks: statuswriter.Hooks{Acknowledged: func(uid types.UID) { told <- uid }},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()

	pod := newPod("job", "u1")
	if err := w.Set(pod, &corev1.PodStatus{Phase: corev1.PodSucceeded}); err != nil {
		fmt.Println(err)
	}
	fmt.Println("the API server knows the end of", <-told)
	fmt.Println("its phase there is", api.get("job").Status.Phase)
	stop()
	fmt.Println(<-done)
	// Output:
	// the API server knows the end of u1
	// its phase there is Succeeded
	// <nil>
}
