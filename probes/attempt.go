package probes

import (
	"context"
	"time"
)

// found is what came of the calls of a prober.
type found struct {
	res   Result
	err   error
	tries int
}

// launch begins an attempt of w, and returns what makes it.
func (e *Engine) launch(ctx context.Context, w *worker, now time.Duration) func() {
	w.state = running
	w.flight.began = now
	w.flight.open++
	e.load.Running++
	e.attempts.Add(1)
	call, cancel := e.arm(ctx, w, now)
	return func() {
		defer e.attempts.Done()
		e.attempt(ctx, call, cancel, w)
	}
}

// arm returns the context of a call that begins now, and sets the time at which
// it is over.
func (e *Engine) arm(ctx context.Context, w *worker, now time.Duration) (context.Context, context.CancelFunc) {
	call, cancel := w.context(ctx)
	w.flight.cancel = cancel
	slack := overrunSlack
	if w.command != nil {
		slack = execSlack
	}
	e.timers.set(w, now+w.probe.Schedule.Timeout+slack)
	return call, cancel
}

// attempt makes one attempt. ctx is that of Run, and call that of the first call
// of the prober, which cancel ends.
func (e *Engine) attempt(ctx, call context.Context, cancel context.CancelFunc, w *worker) {
	f := found{tries: 1}
	f.res, f.err = w.call(call)
	cancel()
	for f.err != nil && f.tries < maxTries {
		if call, cancel = e.retry(ctx, w); call == nil {
			break
		}
		f.tries++
		f.res, f.err = w.call(call)
		cancel()
	}
	if rep := e.finish(ctx, w, &f); rep != nil {
		e.report(rep)
	}
}

// retry returns the context of another try of an attempt, nil when its result no
// longer matters.
func (e *Engine) retry(ctx context.Context, w *worker) (context.Context, context.CancelFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w.state != running || ctx.Err() != nil {
		return nil, nil
	}
	return e.arm(ctx, w, e.now())
}

// finish takes in what came of an attempt that has returned. The report is nil
// when there is nothing to tell.
func (e *Engine) finish(ctx context.Context, w *worker, f *found) *report {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	e.load.Running--
	w.flight.cancel = nil
	e.containers.returned(w)
	if w.state == overrun {
		e.load.Overrun--
	}
	if w.state != running || ctx.Err() != nil {
		// The result was taken to be a failure already, or nobody wants it.
		e.land(w, now)
		return nil
	}
	rep := e.take(w, f, now)
	if rep == nil {
		e.land(w, now)
		return nil
	}
	w.state = reporting
	e.timers.remove(w)
	return rep
}

// expire takes in that the time of an attempt is over, and returns what tells of it.
func (e *Engine) expire(w *worker, now time.Duration) func() {
	w.state = overrun
	w.flight.open++
	w.record.counts.Overruns++
	e.timers.remove(w)
	e.load.Overrun++
	e.attempts.Add(1)
	rep := e.take(w, &found{res: w.timedOut(), tries: 1}, now)
	return func() {
		defer e.attempts.Done()
		e.cfg.Log.Warn("prober is still at work after its timeout; no other attempt begins before it returns",
			"kind", w.kind, "container", w.entry.ref.ID, "timeout", w.probe.Schedule.Timeout)
		e.report(rep)
	}
}

// take records the outcome of an attempt and what it changes. The report is nil
// when there is nothing to tell.
func (e *Engine) take(w *worker, f *found, now time.Duration) *report {
	e.freeSlot(w)
	e.stall.forgive(f, w.flight.began, now)
	from := w.tracker.Value()
	changed := w.tracker.Observe(f.res.Outcome)
	w.record.add(f, w.flight.began, now, changed)
	if changed && w.kind == Startup && w.tracker.Value() == Success {
		e.activate(w.entry, false)
	}
	if !changed && w.state != overrun && e.cfg.Hooks.Attempted == nil {
		return nil
	}
	rep := &report{w: w, changed: changed}
	rep.attempt = Attempt{
		Ref:      w.entry.ref,
		Kind:     w.kind,
		Result:   f.res,
		Err:      f.err,
		At:       e.epoch.Add(w.flight.began),
		Duration: now - w.flight.began,
		Lag:      w.flight.began - w.due,
		Tries:    f.tries,
		Overrun:  w.state == overrun,
	}
	if changed {
		rep.change = Change{Ref: w.entry.ref, Kind: w.kind, From: from, To: w.tracker.Value(), Result: f.res, Grace: w.probe.Grace}
	}
	return rep
}

// report is what there is to tell about an attempt.
type report struct {
	w       *worker
	attempt Attempt
	change  Change
	changed bool
}

// report tells it and lets the worker go on.
func (e *Engine) report(rep *report) {
	if told := e.cfg.Hooks.Attempted; told != nil {
		told(rep.attempt)
	}
	if rep.changed {
		c := &rep.change
		e.cfg.Log.Info("probe changed", "kind", c.Kind, "pod", c.Ref.Pod, "uid", c.Ref.UID,
			"container", c.Ref.Name, "from", c.From, "to", c.To, "message", c.Result.Message)
		if told := e.cfg.Hooks.Changed; told != nil {
			told(*c)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.land(rep.w, e.now())
}

// land ends a call or a report, and plans the next attempt after the last of
// them.
func (e *Engine) land(w *worker, now time.Duration) {
	w.flight.open--
	if w.flight.open > 0 || w.state == stopped {
		return
	}
	if w.tracker.Held() {
		w.state = idle
		e.timers.remove(w)
		e.load.Probes--
		return
	}
	w.plan(now)
	e.schedule(w)
}
