package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// A look at what runs, a change, and a look at what the change did. With a real
// runtime, endpoint is unix:///run/containerd/containerd.sock and Config is empty.
func Example() {
	ctx := context.Background()
	endpoint, dialer, stop := fakeRuntime()
	defer stop()

	c, err := runtime.Dial(ctx, endpoint, runtime.Config{Dialer: dialer})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	before, err := c.Snapshot(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = c.RunPodSandbox(ctx, &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "0b1c"},
	}, "")
	if err != nil {
		log.Fatal(err)
	}
	now, err := c.Snapshot(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, pod := range runtime.Diff(before, now) {
		fmt.Println(pod.UID, pod.Changes[0].Kind)
	}

	_, err = c.ContainerStatus(ctx, "no-such-id", false)
	fmt.Println(errors.Is(err, runtime.ErrNotFound))
	// Output:
	// 0b1c SandboxReady
	// true
}

// fakeRuntime starts a runtime in this process.
func fakeRuntime() (endpoint string, dialer func(context.Context, string) (net.Conn, error), stop func()) {
	s, err := runtimetest.New(runtimetest.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if err := s.Up(); err != nil {
		log.Fatal(err)
	}
	return s.Endpoint(), s.DialContext, s.Close
}
