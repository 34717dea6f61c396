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
	last time.Time // of the last look; zero if nobody looks out
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
	p.mark(time.Now())
	defer p.mark(time.Time{})
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.mu.Lock()
		p.lookLocked(time.Now())
		p.mu.Unlock()
	}
}

func (p *pauses) mark(last time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = last
}

// lookLocked notes a pause that ends now.
func (p *pauses) lookLocked(now time.Time) {
	if p.last.IsZero() {
		return
	}
	if now.Sub(p.last) >= pauseMin {
		p.seen = append(p.seen, pause{p.last, now})
	}
	p.last = now
}

// within returns for how long in all the machine stood still between two times, of which
// none is to come. Who asks may run before the one that looks out does.
func (p *pauses) within(begin, end time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lookLocked(time.Now())
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
