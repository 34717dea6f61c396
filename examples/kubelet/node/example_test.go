package node_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/nodekit-go/nodekit/allocatable/config"
	"github.com/nodekit-go/nodekit/examples/kubelet/node"
)

// A program of one's own around a Node. It needs root and a container runtime.
func Example() {
	kubelet, problems, err := config.LoadFile("/etc/kubernetes/kubelet.yaml", node.Honoured())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range problems {
		fmt.Println(p)
	}
	n, err := node.New(node.Config{Kubelet: kubelet, Name: "node-a"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	fmt.Println(n.Run(ctx)) // the pods keep running
}
