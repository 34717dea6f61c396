package runtimetest_test

import (
	"context"
	"fmt"
	"log"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// A runtime whose containers "app" fail at once, under an agent that tries again. In a
// test, Start and Client save the error handling.
func Example() {
	ctx := context.Background()
	s, err := runtimetest.New(runtimetest.Config{Images: []runtimetest.Image{{Name: "web:1"}}})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	if err := s.Up(); err != nil {
		log.Fatal(err)
	}
	s.SetLives("app", runtimetest.Life{StartError: "no such file"}, runtimetest.Life{})

	c, err := runtime.Dial(ctx, s.Endpoint(), runtime.Config{Dialer: s.DialContext})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	pod := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "0b1c"}}
	sandbox, err := c.RunPodSandbox(ctx, pod, "")
	if err != nil {
		log.Fatal(err)
	}
	for attempt := range uint32(2) {
		id, err := c.CreateContainer(ctx, sandbox, &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "app", Attempt: attempt},
			Image:    &runtimeapi.ImageSpec{Image: "web:1"},
		}, pod)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("started:", c.StartContainer(ctx, id) == nil)
	}
	for _, change := range s.Changes() {
		fmt.Println(change)
	}
	// Output:
	// started: false
	// started: true
	// RunPodSandbox default/web
	// CreateContainer default/web/app
	// StartContainer default/web/app
	// CreateContainer default/web/app
	// StartContainer default/web/app
}
