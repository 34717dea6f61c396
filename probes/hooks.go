package probes

import (
	"fmt"
	"time"
)

// Hooks are told what happens in an Engine. Any of them may be nil. They are
// called from the goroutine of the attempt, one at a time for each probe and in
// order: a hook that blocks delays that probe and no other. Hooks may call the
// Engine.
type Hooks struct {
	// Changed is called when the value of a probe has changed.
	Changed func(Change)
	// Attempted is called after every attempt.
	Attempted func(Attempt)
	// Removed is called when a container has been removed, by the goroutine that
	// removed it: metrics about it can go. A call of Attempted that was under way
	// may end after it.
	Removed func(Ref)
}

// Change says that a probe has another value.
type Change struct {
	Ref  Ref
	Kind Kind
	From Outcome
	To   Outcome
	// Result is what tipped the scales.
	Result Result
	// Grace is that of the Probe; it matters when To asks for a restart.
	Grace *time.Duration
}

// Attempt tells what came of one attempt.
type Attempt struct {
	Ref    Ref
	Kind   Kind
	Result Result
	// Err is why there is no answer; Result is then Unknown.
	Err error
	// At is when the attempt began.
	At time.Time
	// Duration is how long it took, all tries together.
	Duration time.Duration
	// Lag is how long after its time the attempt began: waiting for other commands
	// to end, or for a busy machine.
	Lag time.Duration
	// Tries is how often the Prober was called: more than once only after errors.
	Tries int
	// Overrun says that the Prober was still at work when its time was over. The
	// next attempt waits until it has returned.
	Overrun bool
}

// The metrics that the kubelet keeps about probes. The first counts attempts,
// with the labels probe_type, result, container, pod, namespace and pod_uid; the
// second is a histogram of their durations, with the labels probe_type,
// container, pod and namespace.
const (
	MetricTotal    = "prober_probe_total"
	MetricDuration = "prober_probe_duration_seconds"
)

// MetricResult returns the value of the label result of MetricTotal: "successful",
// "failed" or "unknown".
func (a Attempt) MetricResult() string {
	switch a.Result.Outcome.verdict() {
	case Success:
		return "successful"
	case Failure:
		return "failed"
	}
	return "unknown"
}

// Timed reports whether MetricDuration counts the attempt: failures, whose
// durations are mostly those of timeouts, stay out of it.
func (a Attempt) Timed() bool { return a.Result.Outcome != Failure }

// Event is what the kubelet tells the API server about an attempt. Its type is
// Warning.
type Event struct {
	Reason  string
	Message string
}

// The reasons of events.
const (
	ReasonUnhealthy    = "Unhealthy"
	ReasonProbeWarning = "ProbeWarning"
)

// Event returns the event about the attempt; a plain success has none.
func (a Attempt) Event() (Event, bool) {
	switch {
	case a.Err != nil:
		return Event{ReasonUnhealthy, fmt.Sprintf("%s probe errored and resulted in %s state: %v", a.Kind, Unknown, a.Err)}, true
	case a.Result.Outcome == Failure:
		return Event{ReasonUnhealthy, fmt.Sprintf("%s probe failed: %s", a.Kind, a.Result.Message)}, true
	case a.Result.Outcome == Warning:
		return Event{ReasonProbeWarning, fmt.Sprintf("%s probe warning: %s", a.Kind, a.Result.Message)}, true
	case a.Result.Outcome == Unknown:
		return Event{ReasonUnhealthy, fmt.Sprintf("%s probe returned unknown result: %s", a.Kind, a.Result.Message)}, true
	}
	return Event{}, false
}
