package podsource

import (
	"math/rand/v2"
	"time"
)

// backoff makes the waits between attempts grow. The zero value begins anew.
type backoff struct{ last time.Duration }

// next returns a wait of firstWait, doubled each time up to longestWait, and up to
// as much again by chance, so that the nodes of a cluster do not come back all at once.
func (b *backoff) next() time.Duration {
	b.last = min(max(firstWait, 2*b.last), longestWait)
	return b.last + rand.N(b.last)
}
