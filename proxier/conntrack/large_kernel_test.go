//go:build linux

package conntrack

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
)

// largeTable is how many flows the kernel is asked to hold. The table of the host may
// be smaller: nf_conntrack_max is the same in all namespaces, and the test's to change in
// a guest of its own alone.
func largeTable(t *testing.T) int {
	t.Helper()
	const limit = "/proc/sys/net/netfilter/nf_conntrack_max"
	want := 20_000
	if os.Getenv("NODEKIT_LONG") == "1" {
		want = 1_000_000
	}
	if os.Getenv("NODEKIT_VM") != "" {
		if err := os.WriteFile(limit, []byte(strconv.Itoa(want*2)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(limit)
	if err != nil {
		return want
	}
	most, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	return min(want, most*9/10)
}

// Whoever programs Services waits for no search, however large the table is: the
// calls during the first search, of all flows, and those during later ones are short.
func TestKernelLargeTableHoldsNobodyUp(t *testing.T) {
	ns := netnstest.New(t)
	entry(t, ns, 40000, "10.96.0.10:53", "10.244.0.7:53")
	flows := fill(t, ns, largeTable(t))
	searches := make(chan Search, 100)
	c, err := New(Config{NetNS: ns.Path(), Observe: func(s Search) {
		select {
		case searches <- s:
		default:
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	defer func() { cancel(); <-done }()

	port := func(endpoint string) *proxier.ServicePort { return udpPort("dns", "10.96.0.10:53", endpoint) }
	c.Reset(&proxier.State{Ports: []*proxier.ServicePort{port("10.244.0.7:53")}})
	var took []time.Duration
	var largest Search
	for first := true; first || len(took) < 1000; {
		begin := time.Now()
		c.Applied(proxier.Delta{Update: []*proxier.ServicePort{port([]string{"10.244.0.8:53", "10.244.0.9:53"}[len(took)%2])}})
		took = append(took, time.Since(begin))
		time.Sleep(100 * time.Microsecond) //nolint:forbidigo // kernel time
		select {
		case s := <-searches:
			first = false
			if s.Err != nil {
				t.Error(s.Err)
			}
			if s.Seen > largest.Seen {
				largest = s
			}
		default:
		}
	}
	slices.Sort(took)
	p99 := took[len(took)*99/100]
	t.Logf("%d flows; the largest search saw %d in %v; %d calls meanwhile took %v at the median, %v at p99", flows, largest.Seen, largest.Took,
		len(took), took[len(took)/2], p99)
	if largest.Seen < flows {
		t.Errorf("the largest search saw %d flows, want all %d", largest.Seen, flows)
	}
	// One call in a hundred may meet a machine with much else to do.
	if limit := 5 * time.Millisecond; p99 > limit {
		t.Errorf("a call took %v at p99, want at most %v", p99, limit)
	}
	if left := table(t, ns); slices.Contains(left, "10.96.0.10:53<-10.244.0.7:53") {
		t.Error("the stale flow is still there")
	}
}
