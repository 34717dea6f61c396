package gc_test

import (
	"context"
	"fmt"
	"time"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/images"
	"github.com/nodekit-go/nodekit/runtime/images/gc"
)

// What goes when 88 of 100 GB are used: what was used longest ago, until 80 are.
func ExampleDecide() {
	noon := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	yesterday := noon.Add(-24 * time.Hour)
	const gb = 1_000_000_000
	images := []gc.Image{
		{ID: "sha256:web", Size: 5 * gb, FirstSeen: yesterday, LastUsed: noon.Add(-time.Hour)},
		{ID: "sha256:pause", Size: 1 * gb, FirstSeen: yesterday, Kept: true},
		{ID: "sha256:job", Size: 6 * gb, FirstSeen: yesterday, LastUsed: noon.Add(-2 * time.Hour)},
		{ID: "sha256:new", Size: 9 * gb, FirstSeen: noon.Add(-time.Minute)},
	}
	usage := gc.Usage{Capacity: 100 * gb, Available: 12 * gb}
	fmt.Println(gc.Decide(images, usage, gc.DefaultPolicy(), gc.Times{Now: noon, Started: yesterday}))
	// Output:
	// free 8000000000 bytes
	// remove sha256:job of 6000000000 bytes for space
	// remove sha256:web of 5000000000 bytes for space
}

// An agent's images are collected as long as ctx lives.
func ExampleCollector() {
	_ = func(ctx context.Context, client *runtime.Client, manager *images.Manager) error {
		c, err := gc.New(client, gc.Config{Given: manager.Given})
		if err != nil {
			return err
		}
		err = c.Run(ctx)
		return err
	}
}
