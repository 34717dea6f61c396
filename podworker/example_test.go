package podworker_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/podworker"
)

// printer is a Syncer for pods that do nothing.
type printer struct{}

func (printer) Sync(_ context.Context, pod *corev1.Pod) (podworker.Outcome, error) {
	fmt.Println("run", pod.Name)
	return podworker.Outcome{}, nil
}

func (printer) SyncTerminating(_ context.Context, pod *corev1.Pod, t podworker.Termination) error {
	fmt.Println("stop", pod.Name, "within", t.Grace.Round(time.Second))
	return nil
}

func (printer) SyncTerminated(_ context.Context, pod *corev1.Pod) error {
	fmt.Println("clean up", pod.Name)
	return nil
}

func Example() {
	pool, err := podworker.New(printer{}, podworker.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- pool.Run(ctx) }()

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1"}}
	pool.Update(pod)
	if _, err := pool.Wait(ctx, pod.UID, podworker.Syncing); err != nil {
		fmt.Println(err)
	}
	pool.Terminate(pod.UID, podworker.Termination{Grace: 5 * time.Second})
	state, err := pool.Wait(ctx, pod.UID, podworker.Finished)
	fmt.Println(state.Phase, err)

	stop() // pods that still run go on running
	fmt.Println(<-done)
	// Output:
	// run web
	// stop web within 5s
	// clean up web
	// Finished <nil>
	// <nil>
}
