package probes

import (
	"cmp"
	"slices"
	"time"
)

// maxKept bounds the message that an Engine keeps of each probe's last attempt.
const maxKept = 1 << 10

// Status tells all about the probes of one container.
type Status struct {
	Ref    Ref
	Values Values
	// Probes has one element for each probe the container has, in the order of the
	// kinds.
	Probes []ProbeStatus
}

// ProbeStatus tells how a probe is and what it has done.
type ProbeStatus struct {
	Kind  Kind
	Value Outcome
	// Streak attempts in a row had the outcome StreakOf. On reaching a threshold
	// they make the value.
	StreakOf Outcome
	Streak   int
	// Held says that probing is over for this container.
	Held bool
	// Running says that the prober is at work.
	Running bool
	// Last is the last attempt, its message cut to 1 KiB; its At is zero when there
	// was none. Err is empty when it had an answer.
	Last Last
	// ChangedAt is when the value changed last; zero when it has not.
	ChangedAt time.Time
	Counts    Counts
}

// Last is the last attempt at a probe.
type Last struct {
	Outcome  Outcome
	Message  string
	Err      string
	At       time.Time
	Duration time.Duration
}

// Counts sum up the attempts at a probe since its container was added.
type Counts struct {
	Successful uint64
	Failed     uint64
	Unknown    uint64
	// Overruns are the attempts among Failed whose prober was still at work when
	// their time was over.
	Overruns uint64
	// Skipped are attempts not begun because the prober of an earlier one, of a
	// container removed and added again, had not returned.
	Skipped uint64
	// Busy is the time that all attempts took.
	Busy time.Duration
}

// attempts returns the number of attempts.
func (c *Counts) attempts() uint64 { return c.Successful + c.Failed + c.Unknown }

// Snapshot returns the status of every container, ordered by namespace, pod,
// container and ID.
func (e *Engine) Snapshot() []Status {
	e.mu.Lock()
	all := make([]Status, 0, len(e.containers.byID))
	for _, en := range e.containers.byID {
		all = append(all, en.status(e.epoch))
	}
	e.mu.Unlock()
	slices.SortFunc(all, func(a, b Status) int {
		return cmp.Or(
			cmp.Compare(a.Ref.Namespace, b.Ref.Namespace),
			cmp.Compare(a.Ref.Pod, b.Ref.Pod),
			cmp.Compare(a.Ref.Name, b.Ref.Name),
			cmp.Compare(a.Ref.ID, b.Ref.ID),
		)
	})
	return all
}

// Status returns the status of one container, and whether there is such a
// container.
func (e *Engine) Status(id string) (Status, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	en := e.containers.byID[id]
	if en == nil {
		return Status{}, false
	}
	return en.status(e.epoch), true
}

func (en *entry) status(epoch time.Time) Status {
	s := Status{Ref: en.ref, Values: en.values()}
	for _, w := range en.workers {
		if w != nil {
			s.Probes = append(s.Probes, w.status(epoch))
		}
	}
	return s
}

func (w *worker) status(epoch time.Time) ProbeStatus {
	s := ProbeStatus{
		Kind:    w.kind,
		Value:   w.tracker.Value(),
		Held:    w.tracker.Held(),
		Running: w.flight.cancel != nil,
		Last:    w.record.last,
		Counts:  w.record.counts,
	}
	s.StreakOf, s.Streak = w.tracker.Streak()
	if w.record.counts.attempts() > 0 {
		s.Last.At = epoch.Add(w.record.began)
	}
	if w.record.moved {
		s.ChangedAt = epoch.Add(w.record.changed)
	}
	return s
}

// record is what a worker remembers for its status. Times are since the epoch of
// the Engine.
type record struct {
	last    Last // without At
	began   time.Duration
	moved   bool // the value has changed, at changed
	changed time.Duration
	counts  Counts
}

// add takes in an attempt that lasted from began until now.
func (r *record) add(f *found, began, now time.Duration, changed bool) {
	r.began = began
	r.last = Last{Outcome: f.res.Outcome, Message: f.res.Message, Duration: now - began}
	if len(f.res.Message) > maxKept {
		r.last.Message = clip(f.res.Message, maxKept)
	}
	if f.err != nil {
		r.last.Err = clip(f.err.Error(), maxKept)
	}
	if changed {
		r.moved, r.changed = true, now
	}
	r.counts.Busy += now - began
	switch f.res.Outcome.verdict() {
	case Success:
		r.counts.Successful++
	case Failure:
		r.counts.Failed++
	default:
		r.counts.Unknown++
	}
}
