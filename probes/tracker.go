package probes

import "cmp"

// Tracker turns the outcomes of attempts at one probe of one container into the
// value of that probe. It is pure: no clock, no goroutine, no lock. A restarted
// container gets a new Tracker.
type Tracker struct {
	kind     Kind
	success  int
	failure  int
	value    Outcome
	streak   int
	streakOf Outcome
	held     bool
}

// NewTracker returns the Tracker of a container that has just started: readiness
// is Failure, liveness is Success and startup is Unknown until attempts say
// otherwise. The thresholds are those of s.
func NewTracker(k Kind, s Schedule) Tracker {
	return Tracker{
		kind:    k,
		success: cmp.Or(s.SuccessThreshold, DefaultSuccessThreshold),
		failure: cmp.Or(s.FailureThreshold, DefaultFailureThreshold),
		value:   k.initial(),
	}
}

// Seed sets the value that the probe had in an earlier life of the agent, for a
// container that was running already then. Counting starts afresh: a full
// threshold of results changes the value. A startup probe that had succeeded is
// over. Unknown means that the value was not kept.
func (t *Tracker) Seed(value Outcome) {
	t.value = value.verdict()
	t.streak = 0
	t.held = t.kind == Startup && t.value == Success
}

// Observe takes the outcome of an attempt and reports whether the value changed.
// Unknown changes nothing, not even the count of results in a row. A Tracker on
// hold ignores everything.
func (t *Tracker) Observe(o Outcome) (changed bool) {
	o = o.verdict()
	if o == Unknown || t.held {
		return false
	}
	if o != t.streakOf {
		t.streakOf, t.streak = o, 0
	}
	t.streak++
	if t.streak < t.threshold(o) {
		return false
	}
	changed = t.value != o
	t.value = o
	if t.kind == Startup || t.kind == Liveness && o == Failure {
		t.hold()
	}
	return changed
}

// Quiet ends a startup or liveness probe because its pod is going down: its value
// becomes Success, so that nobody restarts or kills the container over it, and
// later outcomes are ignored. A readiness probe is left as it is.
func (t *Tracker) Quiet() {
	if t.kind == Readiness {
		return
	}
	t.value = Success
	t.hold()
}

// Value returns the value: Success, Failure or Unknown.
func (t *Tracker) Value() Outcome { return t.value }

// Held reports whether probing is over for this container: its liveness probe
// has failed, or its startup probe has come to a result.
func (t *Tracker) Held() bool { return t.held }

// Streak returns the outcome of the latest attempts that agree, and their number.
func (t *Tracker) Streak() (Outcome, int) { return t.streakOf, t.streak }

func (t *Tracker) threshold(o Outcome) int {
	if o == Success {
		return t.success
	}
	return t.failure
}

func (t *Tracker) hold() {
	t.held = true
	t.streak = 0
}
