package lease_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/nodekit-go/nodekit/lease"
)

// outage is a time in which something is wrong.
type outage struct {
	fault       string
	after, last time.Duration
}

// Whatever was wrong before: a server that can be reached has the next renewal within
// a period, or, after an outage, within the longest wait and the attempt that was under
// way. So no outage shorter than the rest of the Lease costs it.
func TestReachableServerIsNeverTooLateProperty(t *testing.T) {
	const (
		period   = 10*time.Second + 400*time.Millisecond
		catchUp  = 5*time.Second + 10*time.Second // maximal wait, attempt under way
		slackFor = time.Second                    // requests that a renewal needs
	)
	names := slices.Sorted(maps.Keys(faults()))
	rapid.Check(t, func(rt *rapid.T) {
		outages := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) outage {
			return outage{
				fault: rapid.SampledFrom(names).Draw(rt, "fault"),
				after: time.Duration(rapid.IntRange(0, 90_000).Draw(rt, "after")) * time.Millisecond,
				last:  time.Duration(rapid.IntRange(1, 120_000).Draw(rt, "last")) * time.Millisecond,
			}
		}), 1, 5).Draw(rt, "outages")
		p := protocols()[rapid.SampledFrom([]string{"HTTP 1.1", "HTTP 2"}).Draw(rt, "protocol")]
		var wrong []string
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, p)
			keep(t, w.client.Leases(lease.DefaultNamespace), lease.Config{Link: w.link})
			type span struct{ from, to time.Time }
			var reachable []span
			from := time.Now()
			for _, o := range outages {
				pass(o.after)
				reachable = append(reachable, span{from, time.Now()})
				mend := faults()[o.fault](w)
				pass(o.last)
				mend()
				from = time.Now()
			}
			pass(time.Minute)
			reachable = append(reachable, span{from, time.Now()})
			writes := w.server.Writes()
			for i, s := range reachable {
				allowed := period + slackFor
				if i > 0 {
					allowed = catchUp + slackFor
				}
				last := s.from
				for _, wr := range writes {
					if wr.Time.Before(s.from) || wr.Time.After(s.to) {
						continue
					}
					if gap := wr.Time.Sub(last); gap > allowed {
						wrong = append(wrong, fmt.Sprintf("reachable since %s, renewed only %s after", s.from, wr.Time.Sub(s.from)))
					}
					last, allowed = wr.Time, period+slackFor
				}
				if gap := s.to.Sub(last); gap > allowed {
					wrong = append(wrong, fmt.Sprintf("reachable from %s to %s, and not renewed for the last %s", s.from, s.to, gap))
				}
			}
		})
		for _, s := range wrong {
			rt.Error(s)
		}
	})
}
