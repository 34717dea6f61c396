package probes

import (
	"errors"
	"fmt"
	"time"
)

// maxLate is how late Run may be before the Engine takes this process to have
// stood still: the machine was suspended, or is far too busy. Ordinary delays are a
// small part of it.
const maxLate = time.Second

// errStalled says that an attempt failed while this process stood still.
var errStalled = errors.New("this process stood still meanwhile, so that the failure of the probe says nothing")

// stall knows when this process last stood still. The probers then ran into their
// deadlines without having had their time, which must not cost containers their
// lives.
type stall struct {
	next  time.Duration // when the next round of Run is due
	ended time.Duration // when the last stall was over
}

// round takes in that a round begins at now.
func (s *stall) round(now time.Duration) {
	if s.next > 0 && now-s.next > maxLate {
		s.ended = now
	}
}

// during reports whether the process stood still between began and now.
func (s *stall) during(began, now time.Duration) bool {
	return began < s.ended || s.next > 0 && now-s.next > maxLate
}

// forgive turns a failure that a stall may have caused into an error.
func (s *stall) forgive(f *found, began, now time.Duration) {
	if f.res.Outcome == Failure && s.during(began, now) {
		f.err = fmt.Errorf("%w: %s", errStalled, f.res.Message)
		f.res = Result{}
	}
}
