package streaming_test

import (
	"context"
	"fmt"
	"net/url"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
	"github.com/nodekit-go/nodekit/runtime/runtimetest/streaming"
)

// Example asks a runtime in memory for a port-forward and gets a URL that a client
// of SPDY or WebSocket can use once.
func Example() {
	address, err := forward(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(address.Scheme, address.Hostname())
	// Output: http 127.0.0.1
}

func forward(ctx context.Context) (*url.URL, error) {
	rt, err := runtimetest.New(runtimetest.Config{})
	if err != nil {
		return nil, err
	}
	defer rt.Close()
	if err := rt.Up(); err != nil {
		return nil, err
	}
	streams, err := streaming.New(ctx, rt)
	if err != nil {
		return nil, err
	}
	defer streams.Close()
	client, err := runtime.Dial(ctx, rt.Endpoint(), runtime.Config{Dialer: rt.DialContext})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	sandbox, err := client.RunPodSandbox(ctx, &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "0b1c"},
	}, "")
	if err != nil {
		return nil, err
	}
	resp, err := client.PortForward(ctx, &runtimeapi.PortForwardRequest{PodSandboxId: sandbox, Port: []int32{80}})
	if err != nil {
		return nil, err
	}
	return url.Parse(resp.GetUrl())
}
