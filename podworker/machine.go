package podworker

import (
	"cmp"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// minRetry keeps a pod that fails, and changes the runtime by failing, from
// being called in a tight loop.
const minRetry = time.Second

// machine decides for all pods when which method of the Syncer is to be called.
// It does no I/O, has no clock, no lock and no goroutine: the Pool tells it what
// happens and does what it answers.
type machine struct {
	resync  time.Duration
	backoff time.Duration
	// jitter lengthens a wait, so that pods started together drift apart.
	jitter func(time.Duration) time.Duration

	workers map[types.UID]*worker
	// names has the UIDs of each claimed full name in the order of their arrival.
	names map[string][]types.UID
	// sourcesSeen is true once the whole set of wanted pods was named.
	sourcesSeen bool
	births      uint64
	effects     []effect
	// first is when the first worker is due, as long as nothing has happened since.
	first struct {
		at    time.Time
		known bool
	}
}

// newMachine returns a machine without pods.
func newMachine(resync, backoff time.Duration, jitter func(time.Duration) time.Duration) *machine {
	return &machine{
		resync:  resync,
		backoff: backoff,
		jitter:  jitter,
		workers: map[types.UID]*worker{},
		names:   map[string][]types.UID{},
	}
}

// step takes one event that happened now and returns what to do, in order.
func (m *machine) step(now time.Time, ev event) []effect {
	m.effects, m.first.known = nil, false
	switch ev := ev.(type) {
	case updated:
		m.update(now, ev.pod)
	case ended:
		if w := m.workers[ev.uid]; w != nil {
			m.terminate(now, w, ev.t)
		}
	case orphaned:
		m.orphan(now, ev.pod, ev.t)
	case vanished:
		if w := m.workers[ev.uid]; w != nil {
			m.vanish(now, w)
		}
	case woken:
		if w := m.workers[ev.uid]; w != nil {
			m.wake(now, w)
		}
	case retained:
		m.retain(now, ev.uids)
	case returned:
		if w := m.workers[ev.uid]; w != nil {
			m.finish(now, w, ev)
		}
	case ticked:
		for _, w := range m.sorted(func(w *worker) bool { return w.ready(now) }) {
			m.schedule(now, w)
		}
	}
	return m.effects
}

// next returns when the machine wants its next tick; zero: not by itself.
func (m *machine) next() time.Time {
	if m.first.known {
		return m.first.at
	}
	var first time.Time
	for _, w := range m.workers {
		if !w.due.IsZero() && (first.IsZero() || w.due.Before(first)) {
			first = w.due
		}
	}
	m.first.at, m.first.known = first, true
	return first
}

// state returns what is known of one pod.
func (m *machine) state(uid types.UID) (State, bool) {
	w, ok := m.workers[uid]
	if !ok {
		return State{sourcesSeen: m.sourcesSeen}, false
	}
	s := w.state()
	s.sourcesSeen = m.sourcesSeen
	return s, true
}

// ending reports whether a static pod of this full name was started and is being
// stopped or cleaned up.
func (m *machine) ending(name string) bool {
	return slices.ContainsFunc(m.names[name], func(uid types.UID) bool {
		w := m.workers[uid]
		return w.phase.holdsName() && w.phase >= Terminating
	})
}

// update takes the newest version of a wanted pod.
func (m *machine) update(now time.Time, pod *corev1.Pod) {
	w := m.workers[pod.UID]
	switch {
	case w == nil:
		w = m.add(pod)
		if over(pod) {
			w.deleted = pod.DeletionTimestamp != nil
			m.terminate(now, w, Termination{})
			return
		}
		m.becomeWaiting(now, w)
	case w.gone:
		w.restart = pod
	case w.pod.Namespace != pod.Namespace || w.pod.Name != pod.Name:
		m.replace(now, w, pod)
	default:
		w.pod = pod
		w.deleted = w.deleted || pod.DeletionTimestamp != nil
		if over(pod) {
			m.terminate(now, w, Termination{})
		} else if w.phase == Syncing {
			m.hasten(now, w)
		}
	}
}

// replace ends w in favour of a pod of another name that has the same UID.
func (m *machine) replace(now time.Time, w *worker, pod *corev1.Pod) {
	w.gone, w.deleted, w.restart = true, true, pod
	if w.phase == Finished {
		m.reborn(now, w)
		return
	}
	m.terminate(now, w, Termination{})
}

// add makes the record of a pod that was unknown.
func (m *machine) add(pod *corev1.Pod) *worker {
	m.births++
	w := &worker{pod: pod, name: claim(pod), birth: m.births}
	m.workers[pod.UID] = w
	if w.name != "" {
		m.names[w.name] = append(m.names[w.name], pod.UID)
	}
	return w
}

// orphan terminates a pod that only the runtime knows.
func (m *machine) orphan(now time.Time, pod *corev1.Pod, t Termination) {
	if m.workers[pod.UID] != nil {
		return
	}
	w := m.add(pod)
	w.gone, w.deleted = true, true
	m.terminate(now, w, t)
}

// retain compares what is there with the whole set of wanted pods.
func (m *machine) retain(now time.Time, uids map[types.UID]struct{}) {
	m.sourcesSeen = true
	unwanted := m.sorted(func(w *worker) bool {
		_, wanted := uids[w.uid()]
		return !wanted
	})
	for _, w := range unwanted {
		m.vanish(now, w)
	}
}

// vanish ends a pod that is in no source any more.
func (m *machine) vanish(now time.Time, w *worker) {
	w.gone, w.deleted, w.restart = true, true, nil
	switch {
	case w.phase == Finished:
		m.forget(w)
	case w.phase < Terminating:
		m.terminate(now, w, Termination{})
	}
}

// terminate takes a request to end the pod.
func (m *machine) terminate(now time.Time, w *worker, t Termination) {
	w.ending.merge(t)
	if w.phase > Terminating {
		return
	}
	shrunk := w.ending.shrink(now, graceOf(w.pod, t))
	if w.phase < Terminating {
		m.becomeTerminating(now, w)
		return
	}
	if shrunk {
		m.interrupt(w)
		m.hasten(now, w)
	}
}

// interrupt cancels the call that is out, if any.
func (m *machine) interrupt(w *worker) {
	if w.out.phase == Unknown || w.out.interrupted {
		return
	}
	w.out.interrupted = true
	m.emit(cancel{w.uid()})
}

// hasten makes the next call happen at once, or after the one that is out.
func (m *machine) hasten(now time.Time, w *worker) {
	if w.out.phase != Unknown {
		w.out.dirty = true
		return
	}
	w.due = now
	m.schedule(now, w)
}

// wake brings the next call forward, but keeps failing pods apart.
func (m *machine) wake(now time.Time, w *worker) {
	switch {
	case !w.phase.calls():
	case w.out.phase != Unknown:
		w.out.dirty = true
	default:
		if soon := w.soonest(now); soon.Before(w.due) {
			w.due = soon
		}
		m.schedule(now, w)
	}
}

// soonest is the earliest time a mere hint may cause a call.
func (w *worker) soonest(now time.Time) time.Time {
	if after := w.out.failed.Add(minRetry); w.out.err != nil && after.After(now) {
		return after
	}
	return now
}

// ready reports whether a call has to be made now.
func (w *worker) ready(now time.Time) bool {
	return w.phase.calls() && w.out.phase == Unknown && !w.due.IsZero() && !w.due.After(now)
}

// schedule asks for the call that is due.
func (m *machine) schedule(now time.Time, w *worker) {
	if !w.ready(now) {
		return
	}
	c := call{uid: w.uid(), phase: w.phase, pod: w.pod}
	switch w.phase {
	case Syncing:
		w.started = true
	case Terminating:
		c.t = w.ending.begin(now)
	}
	w.due = time.Time{}
	w.out.phase, w.out.since = w.phase, now
	w.out.dirty, w.out.interrupted = false, false
	m.emit(c)
}

// finish takes the end of a call.
func (m *machine) finish(now time.Time, w *worker, r returned) {
	was := w.out
	if was.phase == Unknown {
		return
	}
	w.out = out{}
	switch {
	case was.phase != w.phase, was.interrupted && r.err != nil:
		// A call that was told to stop has not failed.
		w.due = now
	case r.err != nil:
		m.fail(now, w, was, r.err)
	case w.phase == Syncing && r.outcome.Terminal:
		m.terminate(now, w, Termination{})
	case w.phase == Syncing && was.dirty:
		w.due = now
	case w.phase == Syncing:
		w.due = now.Add(m.again(r.outcome))
	case w.phase == Terminating:
		m.becomeTerminated(now, w)
	case w.phase == Terminated:
		m.becomeFinished(now, w)
		return
	}
	m.schedule(now, w)
}

// fail plans the next call after one that returned an error.
func (m *machine) fail(now time.Time, w *worker, was out, err error) {
	wait := m.retryAfter(err)
	if was.dirty {
		wait = min(wait, minRetry)
	}
	w.due = now.Add(wait)
	w.out.failed, w.out.err = now, err
	// Nobody knows whether the containers were told to stop: the next attempt
	// gives them the whole period.
	w.ending.deadline = time.Time{}
	m.emit(failed{w.pod, was.phase, err, wait})
}

// again is the wait after a Sync without error.
func (m *machine) again(o Outcome) time.Duration {
	wait := m.jitter(m.resync)
	if o.Again > 0 {
		wait = min(wait, o.Again)
	}
	return wait
}

// retryAfter is the wait after err.
func (m *machine) retryAfter(err error) time.Duration {
	var own interface{ RetryAfter() time.Duration }
	if errors.As(err, &own) {
		return max(minRetry, min(own.RetryAfter(), m.jitter(m.resync)))
	}
	return m.jitter(m.backoff)
}

// enter changes the phase of w, if that is legal.
func (m *machine) enter(w *worker, to Phase) bool {
	if !legal(w.phase, to) {
		m.emit(refused{w.pod, w.phase, to})
		return false
	}
	m.emit(moved{w.pod, w.phase, to})
	w.phase = to
	w.due = time.Time{}
	return true
}

// becomeWaiting lines a pod up for its name, which it gets at once when it is
// free.
func (m *machine) becomeWaiting(now time.Time, w *worker) {
	if !m.enter(w, Waiting) {
		return
	}
	if w.name == "" {
		m.becomeSyncing(now, w)
		return
	}
	m.promote(now, w.name)
}

// becomeSyncing starts a pod.
func (m *machine) becomeSyncing(now time.Time, w *worker) {
	if !m.enter(w, Syncing) {
		return
	}
	m.hasten(now, w)
}

// becomeTerminating stops a pod: a Sync that is out is cancelled, and only when
// it has returned SyncTerminating is called.
func (m *machine) becomeTerminating(now time.Time, w *worker) {
	if !m.enter(w, Terminating) {
		return
	}
	m.interrupt(w)
	m.hasten(now, w)
}

// becomeTerminated cleans up after a pod.
func (m *machine) becomeTerminated(now time.Time, w *worker) {
	if !m.enter(w, Terminated) {
		return
	}
	m.hasten(now, w)
}

// becomeFinished ends the life of a pod and lets the next one with its name, or
// with its UID, begin.
func (m *machine) becomeFinished(now time.Time, w *worker) {
	if !m.enter(w, Finished) {
		return
	}
	switch {
	case w.restart != nil:
		m.reborn(now, w)
	case w.gone:
		m.forget(w)
	}
	m.promote(now, w.name)
}

// reborn starts the pod that was put back under the UID of w, which has finished.
func (m *machine) reborn(now time.Time, w *worker) {
	m.leaveName(w)
	next := m.add(w.restart)
	next.phase = Finished
	if over(next.pod) {
		next.deleted = next.pod.DeletionTimestamp != nil
		return
	}
	m.becomeWaiting(now, next)
}

// forget drops the record of a finished pod.
func (m *machine) forget(w *worker) {
	if !m.enter(w, Unknown) {
		return
	}
	m.leaveName(w)
	delete(m.workers, w.uid())
}

// leaveName takes w out of the line for its name.
func (m *machine) leaveName(w *worker) {
	if w.name == "" {
		return
	}
	left := slices.DeleteFunc(m.names[w.name], func(uid types.UID) bool { return uid == w.uid() })
	if len(left) == 0 {
		delete(m.names, w.name)
		return
	}
	m.names[w.name] = left
}

// promote starts the pod that has waited longest for name, if the name is free.
func (m *machine) promote(now time.Time, name string) {
	var first *worker
	for _, uid := range m.names[name] {
		w := m.workers[uid]
		if w.phase.holdsName() {
			return
		}
		if first == nil && w.phase == Waiting {
			first = w
		}
	}
	if first != nil {
		m.becomeSyncing(now, first)
	}
}

// sorted returns the workers that match, in a stable order.
func (m *machine) sorted(match func(*worker) bool) []*worker {
	var ws []*worker
	for _, w := range m.workers {
		if match(w) {
			ws = append(ws, w)
		}
	}
	slices.SortFunc(ws, func(a, b *worker) int { return cmp.Compare(a.uid(), b.uid()) })
	return ws
}

// emit adds an effect to the answer of the step.
func (m *machine) emit(e effect) { m.effects = append(m.effects, e) }
