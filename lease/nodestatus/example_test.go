package nodestatus_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodekit-go/nodekit/lease/leasetest"
	"github.com/nodekit-go/nodekit/lease/nodestatus"
)

func Example() {
	nodes := leasetest.Direct(leasetest.New()).Nodes() // of an API server
	ctx, stop := context.WithCancel(context.Background())
	reporter, err := nodestatus.New(nodes, nodestatus.Config{
		Name:         "node-a",
		Registration: &nodestatus.Registration{Labels: map[string]string{"zone": "b"}},
		Facts: func(context.Context) (nodestatus.Facts, error) {
			return nodestatus.Facts{Status: corev1.NodeStatus{Capacity: corev1.ResourceList{
				"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"),
				"pods": resource.MustParse("110"), "ephemeral-storage": resource.MustParse("100Gi"),
			}}}, nil
		},
		Hooks: nodestatus.Hooks{Reported: func(n *corev1.Node) {
			for _, c := range n.Status.Conditions {
				fmt.Println(c.Type, c.Status, c.Reason)
			}
			stop()
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("stopped:", reporter.Run(ctx))
	// Output:
	// MemoryPressure False KubeletHasSufficientMemory
	// DiskPressure False KubeletHasNoDiskPressure
	// PIDPressure False KubeletHasSufficientPID
	// Ready True KubeletReady
	// stopped: <nil>
}
