package probes

import (
	"context"
	"errors"
	"time"
)

const (
	// maxTries is how often a prober is called for one attempt while it has no
	// answer. The kubelet tries as often.
	maxTries = 3
	// overrunSlack is how long after its deadline a prober may return and still have
	// its own words used.
	overrunSlack = 250 * time.Millisecond
	// roundGap is the shortest time between two rounds of Run. Attempts that fall
	// due within it begin together, so that many probes cost few wake-ups.
	roundGap = time.Millisecond
	// idleWait bounds the wait for nothing in particular.
	idleWait = time.Hour
)

// Run makes the attempts until ctx ends. It then cancels those under way, waits
// until all of them have ended, and returns nil. It may be called once.
func (e *Engine) Run(ctx context.Context) error {
	e.mu.Lock()
	again := e.started
	e.started = true
	e.mu.Unlock()
	if again {
		return errors.New("Run of this probes.Engine was called before; make a new one")
	}
	defer e.attempts.Wait()
	timer := time.NewTimer(idleWait)
	defer timer.Stop()
	var r round
	for {
		e.collect(ctx, &r)
		for _, do := range r.todo {
			e.attempts.Go(do)
		}
		timer.Reset(r.wait)
		select {
		case <-ctx.Done():
			return nil
		case <-e.wake: // something is due earlier than it was
		case <-timer.C: // something is due
		}
	}
}

// round is what there is to do at one time.
type round struct {
	todo []func()      // attempts to make and reports to give
	wait time.Duration // until the next round
}

// report is what hooks are to be told about a worker.
type report struct {
	w       *worker
	attempt Attempt
	change  Change
	changed bool
}

// collect fills r with what is due.
func (e *Engine) collect(ctx context.Context, r *round) {
	clear(r.todo)
	r.todo = r.todo[:0]
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	for w := e.timers.next(); w != nil && w.at <= now; w = e.timers.next() {
		switch {
		case w.state == running:
			r.todo = append(r.todo, e.expire(w))
		case e.orphaned(w):
			w.record.counts.Skipped++
			w.due = skipping(w.due, now, w.probe.Schedule.Period)
			e.timers.set(w, w.due)
		case w.timed != nil:
			e.timers.remove(w)
			w.state = queued
			e.load.Waiting++
			e.turns.push(w)
		default:
			r.todo = append(r.todo, e.launch(ctx, w, now))
		}
	}
	for e.load.Commands < e.cfg.MaxExec {
		w := e.turns.pop()
		if w == nil {
			break
		}
		e.load.Waiting--
		e.load.Commands++
		w.flight.slot = true
		r.todo = append(r.todo, e.launch(ctx, w, now))
	}
	r.wait = idleWait
	if next := e.timers.next(); next != nil {
		r.wait = max(next.at-now, roundGap)
	}
}

// launch begins an attempt of w, and returns what makes it.
func (e *Engine) launch(ctx context.Context, w *worker, now time.Duration) func() {
	w.state = running
	w.flight.began = now
	w.flight.open++
	e.load.Running++
	call, cancel := e.arm(ctx, w, now)
	return func() { e.attempt(ctx, call, cancel, w) }
}

// arm returns the context of a call that begins now, and sets the time at which
// it is over.
func (e *Engine) arm(ctx context.Context, w *worker, now time.Duration) (context.Context, context.CancelFunc) {
	call, cancel := w.context(ctx)
	w.flight.cancel = cancel
	e.timers.set(w, now+w.probe.Schedule.Timeout+overrunSlack)
	return call, cancel
}

// attempt makes one attempt. ctx is that of Run, and call that of the first call
// of the prober, which cancel ends.
func (e *Engine) attempt(ctx, call context.Context, cancel context.CancelFunc, w *worker) {
	tries := 1
	res, err := w.call(call)
	cancel()
	for err != nil && tries < maxTries {
		if call, cancel = e.retry(ctx, w); call == nil {
			break
		}
		tries++
		res, err = w.call(call)
		cancel()
	}
	e.finish(ctx, w, Attempt{Result: res, Err: err, Tries: tries})
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

// finish takes in what came of an attempt that has returned.
func (e *Engine) finish(ctx context.Context, w *worker, a Attempt) {
	e.mu.Lock()
	e.load.Running--
	w.flight.cancel = nil
	if w.entry.gone {
		delete(e.orphans, orphan{w.entry.ref.ID, w.kind})
	}
	if w.state == overrun {
		e.load.Overrun--
		e.cfg.Log.Debug("prober returned at last", "kind", w.kind, "container", w.entry.ref.ID, "after", e.now()-w.flight.began)
	}
	if w.state != running || ctx.Err() != nil {
		// The result was taken to be a failure already, or nobody wants it.
		e.land(w)
		e.mu.Unlock()
		return
	}
	w.state = reporting
	e.timers.remove(w)
	rep := e.take(w, a)
	if !e.cfg.Hooks.want(rep) {
		e.land(w)
		e.mu.Unlock()
		return
	}
	e.mu.Unlock()
	e.report(rep)
}

// expire takes in that the time of an attempt is over, and returns what reports it.
func (e *Engine) expire(w *worker) func() {
	w.state = overrun
	e.timers.remove(w)
	e.load.Overrun++
	w.flight.open++
	e.cfg.Log.Warn("prober is still at work after its timeout; no other attempt begins before it returns",
		"kind", w.kind, "container", w.entry.ref.ID, "timeout", w.probe.Schedule.Timeout)
	rep := e.take(w, Attempt{Result: w.timedOut(), Tries: 1, Overrun: true})
	return func() { e.report(rep) }
}

// take records an attempt and what it changes.
func (e *Engine) take(w *worker, a Attempt) report {
	now := e.now()
	a.Ref, a.Kind = w.entry.ref, w.kind
	a.At = e.epoch.Add(w.flight.began)
	a.Duration = now - w.flight.began
	a.Lag = w.flight.began - w.due
	e.freeSlot(w)
	from := w.tracker.Value()
	rep := report{w: w, changed: w.tracker.Observe(a.Result.Outcome)}
	to := w.tracker.Value()
	w.record.add(&a, rep.changed)
	if rep.changed {
		rep.change = Change{Ref: a.Ref, Kind: w.kind, From: from, To: to, Result: a.Result, Grace: w.probe.Grace}
		e.cfg.Log.Info("probe changed", "kind", w.kind, "pod", a.Ref.Pod, "uid", a.Ref.UID,
			"container", a.Ref.Name, "from", from, "to", to, "message", a.Result.Message)
		if w.kind == Startup && to == Success {
			e.activate(w.entry, false)
		}
	}
	rep.attempt = a
	return rep
}

// report tells the hooks and lets the worker go on.
func (e *Engine) report(rep report) {
	e.cfg.Hooks.tell(rep)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.land(rep.w)
}

// land ends a call or a report, and plans the next attempt after the last of
// them.
func (e *Engine) land(w *worker) {
	w.flight.open--
	if w.flight.open > 0 || w.state == stopped {
		return
	}
	if w.tracker.Held() {
		w.state = idle
		e.load.Probes--
		return
	}
	w.plan(e.now())
	e.schedule(w)
}

// schedule has w wait until it is due.
func (e *Engine) schedule(w *worker) {
	w.state = waiting
	e.timers.set(w, w.due)
	if e.timers.next() == w {
		e.poke()
	}
}

// halt ends w for good.
func (e *Engine) halt(w *worker) {
	switch w.state {
	case stopped:
		return
	case idle:
	case queued:
		e.load.Waiting--
		e.load.Probes--
	case overrun:
		if w.flight.cancel != nil {
			e.load.Overrun--
		}
		e.load.Probes--
	case waiting, running, reporting:
		e.load.Probes--
	}
	w.state = stopped
	e.timers.remove(w)
	e.freeSlot(w)
	if w.flight.cancel != nil {
		w.flight.cancel()
	}
}

// freeSlot lets another command run in place of w's.
func (e *Engine) freeSlot(w *worker) {
	if !w.flight.slot {
		return
	}
	w.flight.slot = false
	e.load.Commands--
	if e.load.Waiting > 0 {
		e.poke()
	}
}

// orphaned reports whether a prober is still at work for an earlier addition of
// the same container.
func (e *Engine) orphaned(w *worker) bool {
	if len(e.orphans) == 0 {
		return false
	}
	_, found := e.orphans[orphan{w.entry.ref.ID, w.kind}]
	return found
}

// poke has Run look again at what is due.
func (e *Engine) poke() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}
