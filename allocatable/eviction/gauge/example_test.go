//go:build linux

package gauge_test

import (
	"fmt"

	"github.com/nodekit-go/nodekit/allocatable/eviction"
	"github.com/nodekit-go/nodekit/allocatable/eviction/gauge"
)

func Example() {
	g, err := gauge.New(gauge.Config{NodeFS: "/"})
	if err != nil {
		fmt.Println(err)
		return
	}
	left, err := g.Observe()
	if err != nil {
		fmt.Println(err)
		return
	}
	space := left[eviction.NodeFSAvailable]
	fmt.Println(space.Available.Cmp(space.Capacity) < 0)

	// Output:
	// true
}
