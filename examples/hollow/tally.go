package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nodekit-go/nodekit/lease"
)

// showEvery is the time between two lines of the output.
const showEvery = 10 * time.Second

// tally counts what the nodes do.
type tally struct {
	registered, renewals, failures atomic.Int64

	mu sync.Mutex // guards the fields below
	// gap and took are the longest since the last line.
	gap, took time.Duration
}

// renewed counts a renewal.
func (t *tally) renewed(r lease.Renewal) {
	t.renewals.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gap, t.took = max(t.gap, r.Gap), max(t.took, r.Took)
}

// show prints a line now and then, until ctx ends.
func (t *tally) show(ctx context.Context, w io.Writer, nodes int) error {
	fmt.Fprintf(w, "%-10s %-12s %-10s %-9s %-12s %s\n", "SECONDS", "REGISTERED", "RENEWALS", "FAILURES", "LONGEST GAP", "SLOWEST RENEWAL")
	start := time.Now()
	tick := time.NewTicker(showEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			t.line(w, start, nodes)
			return nil
		case <-tick.C:
			t.line(w, start, nodes)
		}
	}
}

func (t *tally) line(w io.Writer, start time.Time, nodes int) {
	t.mu.Lock()
	gap, took := t.gap, t.took
	t.gap, t.took = 0, 0
	t.mu.Unlock()
	fmt.Fprintf(w, "%-10d %-12s %-10d %-9d %-12s %s\n", int(time.Since(start).Seconds()),
		fmt.Sprintf("%d/%d", t.registered.Load(), nodes), t.renewals.Load(), t.failures.Load(),
		gap.Round(time.Millisecond), took.Round(time.Millisecond))
}
