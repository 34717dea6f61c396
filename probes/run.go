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
	// its own words used; for commands it is execSlack.
	overrunSlack = 250 * time.Millisecond
	// roundGap is the shortest time between two rounds of Run. Attempts that fall
	// due within it begin together.
	roundGap = 5 * time.Millisecond
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
	lanes := newLanes()
	defer lanes.close()
	defer e.attempts.Wait()
	defer e.cancel()
	timer := time.NewTimer(idleWait)
	defer timer.Stop()
	var r round
	for {
		e.collect(ctx, &r)
		for _, do := range r.todo {
			lanes.do(do)
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

// cancel ends the calls of all probers.
func (e *Engine) cancel() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, en := range e.containers.byID {
		for _, w := range en.workers {
			if w != nil && w.flight.cancel != nil {
				w.flight.cancel()
			}
		}
	}
}

// round is what there is to do at one time.
type round struct {
	todo []func()      // attempts to make and reports to give, counted in Engine.attempts
	wait time.Duration // until the next round
}

// collect fills r with what is due.
func (e *Engine) collect(ctx context.Context, r *round) {
	clear(r.todo)
	r.todo = r.todo[:0]
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	e.stall.round(now)
	for w := e.timers.due(now); w != nil; w = e.timers.due(now) {
		switch {
		case w.state == running:
			r.todo = append(r.todo, e.expire(w, now))
		case e.containers.orphaned(w):
			w.record.counts.Skipped++
			w.due = skipping(w.due, now, w.probe.Schedule.Period)
			e.timers.set(w, w.due)
		case w.command != nil:
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
	if next, ok := e.timers.next(); ok {
		r.wait = max(next-now, roundGap)
	}
	e.stall.next = now + r.wait
}

// schedule has w wait until it is due.
func (e *Engine) schedule(w *worker) {
	w.state = waiting
	if e.timers.set(w, w.due) {
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

// poke has Run look again at what is due.
func (e *Engine) poke() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}
