package probes

import "time"

// entry is a container in an Engine. The mutex of the Engine guards it.
type entry struct {
	ref     Ref
	started time.Duration
	workers [kinds]*worker // nil where the container has no such probe
	gone    bool
}

func newEntry(c Container, started time.Duration) *entry {
	en := &entry{ref: c.Ref, started: started}
	for k := range Kind(kinds) {
		p := c.probe(k)
		if p == nil {
			continue
		}
		w := newWorker(en, k, *p)
		if c.Seed != nil {
			w.tracker.Seed(c.Seed.of(k))
		}
		en.workers[k] = w
	}
	return en
}

// worker returns the worker of a kind; nil when there is none, or no entry.
func (en *entry) worker(k Kind) *worker {
	if en == nil || k >= kinds {
		return nil
	}
	return en.workers[k]
}

func (en *entry) values() Values {
	return Values{Startup: en.value(Startup), Liveness: en.value(Liveness), Readiness: en.value(Readiness)}
}

// value returns the value of one probe, Success when there is no such probe.
func (en *entry) value(k Kind) Outcome {
	if w := en.workers[k]; w != nil {
		return w.tracker.Value()
	}
	return Success
}

// activate gives a first attempt to every probe of en that has something to find
// out: the startup probe, and the others once the container has started. added
// says that en has just been added.
func (e *Engine) activate(en *entry, added bool) {
	now := e.now()
	for k, w := range en.workers {
		if w == nil || w.state != idle || w.tracker.Held() {
			continue
		}
		if Kind(k) != Startup && en.value(Startup) != Success {
			continue
		}
		w.due = max(now, en.started+w.probe.Schedule.InitialDelay)
		period := w.probe.Schedule.period(w.tracker.Value())
		if added && en.started < 0 && now < period {
			w.due = onTick(w.due+e.jitter(period), period)
		}
		e.load.Probes++
		e.schedule(w)
	}
}

// quiet ends what could have the container stopped.
func (e *Engine) quiet(en *entry) {
	for _, k := range []Kind{Startup, Liveness} {
		if w := en.workers[k]; w != nil {
			w.tracker.Quiet()
			e.halt(w)
		}
	}
	e.activate(en, false)
}
