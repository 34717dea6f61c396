package probes

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// workerState is where a worker stands:
//
//	          activate           its time           a turn
//	idle ──────────────▶ waiting ────────▶ queued ───────────▶ running ──┐
//	 ▲                      ▲  ▲                                 │  │    │ deadline
//	 │ on hold              │  └──────── reporting ◀─────────────┘  │    ▼
//	 └──────────────────────┴───────────────────────────────────────┴─ overrun
//
// Only commands are queued. Every state leads to stopped, which leads nowhere.
type workerState uint8

const (
	// idle: no attempt will be made until something else happens.
	idle workerState = iota
	// waiting: the next attempt is due at worker.due.
	waiting
	// queued: it is due, and waits for its turn to run a command.
	queued
	// running: the prober is at work, within its time.
	running
	// reporting: the prober has returned and hooks are told.
	reporting
	// overrun: its time is over, the prober has not returned.
	overrun
	// stopped: the container was removed, or its pod is going down.
	stopped
)

// worker is one probe of one container. The mutex of the Engine guards what can
// change of it.
type worker struct {
	entry   *entry
	kind    Kind
	state   workerState
	probe   Probe       // with defaults filled in
	command TimedProber // probe.Prober if it is one
	tracker Tracker
	place   int           // in the heap, where it waits for an attempt or for the end of one
	due     time.Duration // when the present attempt, or the next one, was or is due
	flight  flight
	record  record
}

// flight is what a worker keeps about the attempt under way.
type flight struct {
	began  time.Duration
	cancel context.CancelFunc // nil when no prober is at work
	open   int                // the call and the report, if they have not ended
	slot   bool               // counts against Config.MaxExec
	again  bool               // another attempt is to follow at once
}

func newWorker(en *entry, k Kind, p Probe) *worker {
	p.Schedule = p.Schedule.withDefaults()
	command, _ := p.Prober.(TimedProber)
	if h, ok := p.Prober.(HTTP); ok {
		if q, err := h.question(); err == nil { // an error is one of each attempt
			p.Prober = q
		}
	}
	return &worker{
		entry:   en,
		kind:    k,
		probe:   p,
		command: command,
		tracker: NewTracker(k, p.Schedule),
		place:   off,
	}
}

// context returns the context of one call of the prober. What keeps its own time
// gets no deadline. The call does not end with ctx, which is that of Run: it would
// have to be told of every call, while the Engine knows them anyway, and ends them.
func (w *worker) context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx = context.WithoutCancel(ctx)
	if w.command != nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, w.probe.Schedule.Timeout)
}

// call calls the prober. A panic becomes an error; running into the deadline
// becomes a Failure, whatever the prober makes of it.
func (w *worker) call(ctx context.Context) (res Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			res, err = Result{}, fmt.Errorf("the prober panicked: %v", p)
		}
	}()
	if w.command != nil {
		res, err = w.command.ProbeTimeout(ctx, w.probe.Schedule.Timeout)
	} else {
		res, err = w.probe.Prober.Probe(ctx)
	}
	switch {
	case err == nil:
		if len(res.Message) > MaxOutput || !utf8.ValidString(res.Message) {
			res.Message = clip(res.Message, MaxOutput)
		}
		return res, nil
	case errors.Is(err, context.DeadlineExceeded) && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return w.timedOut(), nil
	}
	return Result{}, err
}

// timedOut returns the Result of an attempt that took too long.
func (w *worker) timedOut() Result {
	if w.command != nil {
		return w.command.TimedOut(w.probe.Schedule.Timeout)
	}
	return Failed("the probe did not end within its timeout of %s", w.probe.Schedule.Timeout)
}

// plan sets due for the attempt after the present one.
func (w *worker) plan(now time.Duration) {
	period := w.probe.Schedule.period(w.tracker.Value())
	switch {
	case w.flight.again:
		w.due = now
	case w.state == overrun:
		// What does not keep to its time is not hurried.
		w.due = skipping(w.due, now, period)
	default:
		w.due = following(w.due, now, period)
	}
	w.flight.again = false
}
