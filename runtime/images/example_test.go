package images_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/images"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// A pod gets one image, and waits for another one that no registry has.
func ExampleManager() {
	ctx := context.Background()
	client, stop := fakeRuntime(runtimetest.Image{Name: "registry.example/web:1", Pull: &runtimetest.Pull{}})
	defer stop()

	m, err := images.New(client, images.Config{
		Hooks: images.Hooks{Event: func(_ *corev1.Pod, e images.Event) { fmt.Println(e.Reason) }},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "0b1c"}}
	for _, name := range []string{"registry.example/web:1", "registry.example/nosuch:1"} {
		image, err := m.ForContainer(ctx, pod, &corev1.Container{Name: "app", Image: name}, nil)
		if failure, ok := errors.AsType[*images.Error](err); ok {
			fmt.Println("waiting:", failure.Reason, "for", failure.RetryAfter())
			continue
		}
		fmt.Println("image:", image.GetRepoTags()[0])
	}
	// Output:
	// Pulling
	// Pulled
	// image: registry.example/web:1
	// Pulling
	// Failed
	// Failed
	// waiting: ErrImagePull for 10s
}

// fakeRuntime is a runtime in this process that can pull some images.
func fakeRuntime(known ...runtimetest.Image) (client *runtime.Client, stop func()) {
	server, err := runtimetest.New(runtimetest.Config{Images: known})
	if err == nil {
		err = server.Up()
	}
	if err == nil {
		client, err = runtime.Dial(context.Background(), server.Endpoint(), runtime.Config{Dialer: server.DialContext})
	}
	if err != nil {
		panic(err)
	}
	return client, func() {
		if err := client.Close(); err != nil {
			fmt.Println(err)
		}
		server.Close()
	}
}
