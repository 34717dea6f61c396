package probes

import (
	"context"
	"time"
)

// Prober makes one attempt at finding out how a container is.
//
// A Failure in the Result is an answer: the container is not well. An error says
// that there is no answer, because the prober could not do its work; it counts
// neither for nor against the container.
//
// Probe returns when ctx ends: with a Failure when its deadline passed, with an
// error when it was cancelled. The Engine never calls Probe of one probe of a
// container again before it has returned, and counts a call that outlives its
// deadline as a Failure whatever it returns later.
//
// The probers of this package are plain values. They are ready for use without a
// constructor, may be copied, and may be used by several goroutines at once.
type Prober interface {
	Probe(ctx context.Context) (Result, error)
}

// ProberFunc makes a Prober of a function.
type ProberFunc func(ctx context.Context) (Result, error)

// Probe calls f.
func (f ProberFunc) Probe(ctx context.Context) (Result, error) { return f(ctx) }

// TimedProber is a Prober whose work may outlive an attempt: a command in a
// container goes on until the runtime has killed it, whoever waits for it. The
// Engine calls ProbeTimeout instead of Probe, runs no more than Config.MaxExec of
// such attempts at a time, and starts no second one of a probe before the first
// has returned. What is returned up to 0.9 s after the timeout counts.
type TimedProber interface {
	Prober
	// ProbeTimeout is Probe with the deadline as a value. It returns when the work
	// is really over, which may be after the timeout. ctx ends only when nobody is
	// interested any more.
	ProbeTimeout(ctx context.Context, timeout time.Duration) (Result, error)
	// TimedOut returns the Result of an attempt that did not end in time.
	TimedOut(timeout time.Duration) Result
}

// Broken returns a Prober that answers err at every attempt. It stands in for a
// probe that cannot be built, so that its container is not taken for ready: a
// readiness probe without answers stays Failure.
func Broken(err error) Prober {
	return ProberFunc(func(context.Context) (Result, error) { return Result{}, err })
}
