package probestest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/nodekit-go/nodekit/probes/probestest"
)

func Example() {
	s := probestest.NewScript(probestest.Fail("starting"), probestest.Succeed())
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for range 3 {
		res, err := s.Probe(ctx)
		fmt.Println(res.Outcome, res.Message, err)
	}
	_, most := s.InFlight()
	fmt.Println(len(s.Calls()), "calls,", most, "at a time")
	// Output:
	// failure starting <nil>
	// success  <nil>
	// success  <nil>
	// 3 calls, 1 at a time
}
