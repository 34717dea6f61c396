package images

import (
	"sync"
	"time"
)

// limiter lets something happen at a rate, with bursts. The zero value has no limit.
type limiter struct {
	// interval is the time between two; zero means no limit.
	interval time.Duration
	// burst is how many may happen at once.
	burst int
	// mu guards next.
	mu sync.Mutex
	// next is when the next one would be due if there were no bursts.
	next time.Time
}

// newLimiter allows perSecond; zero means no limit.
func newLimiter(perSecond float64, burst int) *limiter {
	if perSecond == 0 {
		return &limiter{}
	}
	return &limiter{interval: time.Duration(float64(time.Second) / perSecond), burst: burst}
}

// take reports whether one more may happen now, and counts it if so.
func (l *limiter) take(now time.Time) bool {
	if l.interval == 0 {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	due := l.next
	if due.Before(now) {
		due = now
	}
	if due.Sub(now) > time.Duration(l.burst-1)*l.interval {
		return false
	}
	l.next = due.Add(l.interval)
	return true
}
