package capacity_test

import (
	"fmt"

	"github.com/nodekit-go/nodekit/allocatable"
	"github.com/nodekit-go/nodekit/allocatable/capacity"
)

// The capacity of this machine goes straight into Compute.
func ExampleRead() {
	machine, err := capacity.Read(capacity.Config{StorageDir: "/var/lib/kubelet"})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := allocatable.Compute(machine.Resources(110), allocatable.Reserved{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("room for", result.Allocatable.Pods(), "pods")
	// Output:
	// room for 110 pods
}
