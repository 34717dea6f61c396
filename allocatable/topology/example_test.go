package topology_test

import (
	"fmt"

	"github.com/nodekit-go/nodekit/allocatable/topology"
)

// CPUs are free on both nodes of a machine, a device is on the second one only.
func ExampleMerge() {
	machine, err := topology.NewMachine([]topology.Node{{ID: 0, Distances: []int{10, 21}}, {ID: 1, Distances: []int{21, 10}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	first, second := topology.Hint{Nodes: 1 << 0, Preferred: true}, topology.Hint{Nodes: 1 << 1, Preferred: true}
	best, ok := topology.Merge(machine, topology.Rules{Policy: topology.SingleNode}, []topology.Hints{
		{"cpu": {first, second}},
		{"vendor.example/device": {second}},
	})
	fmt.Println(best, ok)
	// Output:
	// 1 preferred true
}
