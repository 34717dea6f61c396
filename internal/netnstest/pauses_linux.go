package netnstest

import (
	"context"
	"sync"
	"time"
)

// pauses are the times in which the machine stood still: nothing ran that was to run.
type pauses struct {
	mu   sync.Mutex
	seen []pause
}

type pause struct{ begin, end time.Time }

// How often a look is due, and how late one is when the machine stood still.
const (
	pauseTick = 20 * time.Millisecond
	pauseMin  = 100 * time.Millisecond
)

// watch looks out for pauses until ctx ends.
func (p *pauses) watch(ctx context.Context) {
	tick := time.NewTicker(pauseTick)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		if now.Sub(last) >= pauseMin {
			p.mu.Lock()
			p.seen = append(p.seen, pause{last, now})
			p.mu.Unlock()
		}
		last = now
	}
}

// within returns for how long in all the machine stood still between two times.
func (p *pauses) within(begin, end time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var sum time.Duration
	for _, s := range p.seen {
		from, to := s.begin, s.end
		if from.Before(begin) {
			from = begin
		}
		if to.After(end) {
			to = end
		}
		sum += max(0, to.Sub(from))
	}
	return sum
}
