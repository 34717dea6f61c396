package doctor

import (
	"context"
	"time"
)

// maxSkew is how far the clocks may be apart. Tokens and certificates are checked with a few
// minutes of patience at most, the age of Leases with none.
const maxSkew = 30 * time.Second

// lookAtClock compares this machine's clock with the API server's.
func lookAtClock(ctx context.Context, n *Node, r *report) {
	s := n.cluster(r)
	if s == nil {
		return
	}
	before := time.Now()
	_, date, err := s.get(ctx, "/version", nil)
	took := time.Since(before)
	if err != nil || date.IsZero() {
		r.skip("the API server does not tell the time")
		return
	}
	// The header has whole seconds, and was written while the answer was waited for.
	skew := before.Add(took / 2).Sub(date.Add(time.Second / 2))
	if skew.Abs() > maxSkew+took {
		where := "ahead of"
		if skew < 0 {
			where = "behind"
		}
		r.problem("set the clock: timedatectl, chronyc tracking", "this machine's clock is %s %s that of the API server", skew.Abs().Round(time.Second), where)
		return
	}
	r.ok("within %s of that of the API server", maxSkew)
}
