package conntrack_test

import (
	"context"
	"fmt"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/conntrack"
)

func Example() {
	c, err := conntrack.New(conntrack.Config{
		Observe: func(s conntrack.Search) { fmt.Println(s.Deleted, "stale flows of", s.Family) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg := proxier.Config{Followers: []proxier.Follower{c}} // for proxier.New
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // a program would end it with a signal
	fmt.Println(len(cfg.Followers), c.Run(ctx))
	// Output: 1 <nil>
}
