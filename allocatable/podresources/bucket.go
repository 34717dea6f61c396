package podresources

import (
	"sync"
	"time"
)

// bucket limits how often something happens: so often per second, and some at once after
// a pause.
type bucket struct {
	perSecond, burst float64

	mu sync.Mutex // guards the fields below
	// spent is how many are gone since the bucket was full, as of last.
	spent float64
	last  time.Time
}

// take reports whether one may happen now.
func (b *bucket) take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.spent = max(0, b.spent-now.Sub(b.last).Seconds()*b.perSecond)
	b.last = now
	if b.spent+1 > b.burst {
		return false
	}
	b.spent++
	return true
}
