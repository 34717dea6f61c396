package statuswriter

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The waits after failures. A refusal concerns one pod; an API server that cannot be
// reached, all: one pod at a time asks whether it is back.
const (
	firstRetry  = time.Second
	maxRetry    = 30 * time.Second
	firstOutage = 500 * time.Millisecond
	maxOutage   = 10 * time.Second
)

// outage says whether the API server can be reached. The zero value says it can.
type outage struct {
	wait  time.Duration
	until time.Time
}

func (o *outage) on() bool { return o.wait > 0 }

func (o *outage) failed(now time.Time) {
	o.wait = min(max(firstOutage, 2*o.wait), maxOutage)
	o.until = now.Add(o.wait)
}

// Run writes until ctx ends; then it waits for the calls that are out and returns nil.
// It is called once.
func (w *Writer) Run(ctx context.Context) error {
	var writes sync.WaitGroup
	defer writes.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.wake: // something was set, observed or written
		case <-timer.C: // something has become due
		}
		due, next := w.due(time.Now())
		for _, t := range due {
			writes.Go(func() { w.write(ctx, t) })
		}
		if next > 0 {
			timer.Reset(next)
		}
	}
}

// task is a status to be written, as it was when it became due.
type task struct {
	uid    types.UID
	pod    *corev1.Pod
	target types.UID
	// server is what is known of the object; ask says that it is to be read all the same.
	server   *corev1.Pod
	ask      bool
	status   *corev1.PodStatus
	version  uint64
	changed  time.Time
	finished bool
}

// due takes the tasks that may start now, the most important first, and tells when to
// ask again; 0: when woken.
func (w *Writer) due(now time.Time) ([]task, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	free := w.cfg.Parallel
	if w.outage.on() {
		if wait := w.outage.until.Sub(now); wait > 0 {
			return nil, wait
		}
		free = 1
	}
	for _, e := range w.entries {
		if e.busy {
			free--
		}
	}
	var tasks []task
	for ; free > 0; free-- {
		uid, e, next := w.bestLocked(now)
		if e == nil {
			return tasks, next
		}
		e.busy = true
		tasks = append(tasks, e.task(uid))
	}
	return tasks, 0 // who ends wakes the loop
}

// bestLocked returns the most important of the entries that are due, nil if there is
// none, and then after what time there will be.
func (w *Writer) bestLocked(now time.Time) (uid types.UID, best *entry, next time.Duration) {
	for id, e := range w.entries {
		if e.busy || !e.pending() {
			continue
		}
		if wait := e.due.Sub(now); wait > 0 {
			if next == 0 || wait < next {
				next = wait
			}
			continue
		}
		if best == nil || e.rank() < best.rank() || (e.rank() == best.rank() && e.due.Before(best.due)) {
			uid, best = id, e
		}
	}
	return uid, best, next
}

// answer is what the API server said.
type answer struct {
	pod              *corev1.Pod
	patched, deleted bool
	err              error
}

// write does a task and takes in how it ended.
func (w *Writer) write(ctx context.Context, t task) {
	began := time.Now()
	call, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	a := w.bring(call, &t)
	if ctx.Err() != nil && a.err != nil {
		w.end(t.uid)
		return
	}
	w.record(&t, a)
	if hook := w.cfg.Hooks.Written; hook != nil {
		hook(Write{UID: t.uid, Changed: t.changed, Took: time.Since(began), Patched: a.patched, Deleted: a.deleted, Err: a.err})
	}
}

// bring makes the API server have the status, and removes the pod there if it is time.
func (w *Writer) bring(ctx context.Context, t *task) (a answer) {
	pods := w.cfg.Pods(t.pod.Namespace)
	a.pod = t.server
	if a.pod == nil || t.ask {
		if a.pod, a.err = pods.Get(ctx, t.pod.Name, metav1.GetOptions{}); a.err != nil {
			return a
		}
		if a.pod.UID != t.target {
			a.err = errReplaced
			return a
		}
	}
	change, err := patch(t.target, &a.pod.Status, merge(&a.pod.Status, t.status))
	if err != nil {
		a.err = err
		return a
	}
	if change != nil {
		after, err := pods.Patch(ctx, t.pod.Name, types.StrategicMergePatchType, change, metav1.PatchOptions{}, "status")
		if err != nil {
			a.err = err
			return a
		}
		a.pod, a.patched = after, true
	}
	if e := (entry{finished: t.finished, server: a.pod}); e.removable() {
		a.err = remove(ctx, pods, a.pod)
		a.deleted = a.err == nil
	}
	return a
}

// remove removes the pod from the API server, if it is still the same.
func remove(ctx context.Context, pods Pods, pod *corev1.Pod) error {
	now := int64(0)
	return pods.Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now,
		Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
	})
}

// errReplaced says that another pod has the name by now.
var errReplaced = errors.New("the pod was deleted and another one has its name")

// record takes in how a task ended.
func (w *Writer) record(t *task, a answer) {
	k := kindOf(a.err)
	w.mu.Lock()
	e := w.entries[t.uid]
	waited := !e.acknowledged()
	w.learnLocked(e, t, a, time.Now())
	told := waited && e.acknowledged()
	w.mu.Unlock()
	if a.err != nil && k != vanished {
		w.cfg.Log.Warn("status of pod was not written, it will be tried again", "pod", t.pod.Namespace+"/"+t.pod.Name, "uid", string(t.uid), "err", a.err)
	}
	switch {
	case told && (a.deleted || k == vanished):
		w.release(t.uid, nil)
	case told:
		w.release(t.uid, t.status)
	}
	w.end(t.uid)
}

// learnLocked takes an answer into an entry, and what it says of the API server.
func (w *Writer) learnLocked(e *entry, t *task, a answer, now time.Time) {
	k := kindOf(a.err)
	switch {
	case k == unreachable:
		w.outage.failed(now)
		// Another pod asks next, should it be this one's fault.
		e.due, e.deferred = w.outage.until.Add(w.outage.wait), true
		return
	case e.server != nil && e.server.UID != t.target:
		// The mirror that was written has been replaced meanwhile: this says nothing of
		// the next one, which became due when it was observed.
	case a.deleted, k == vanished:
		e.gone, e.server, e.written = true, nil, t.version
	case k == none:
		e.learn(t, a.pod, now)
	default:
		// The object stays the one to be written. What it is like is read before, since
		// what is known of it may be the reason.
		e.due = now.Add(min(firstRetry<<min(e.failures, 10), maxRetry))
		e.failures++
	}
	w.outage = outage{}
	w.resumeLocked(now)
}

// resumeLocked makes due what waited for the API server to come back.
func (w *Writer) resumeLocked(now time.Time) {
	for _, e := range w.entries {
		if e.deferred {
			e.due, e.deferred = now, false
		}
	}
}

// end makes a pod's next task possible.
func (w *Writer) end(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entries[uid]
	e.busy = false
	if e.dropped() {
		delete(w.entries, uid)
	}
	w.settledLocked()
	w.wakeUp()
}

// release drops the status of a pod from the journal that the API server has, or any if
// it has no such pod, and tells.
func (w *Writer) release(uid types.UID, status *corev1.PodStatus) {
	if err := w.journal.drop(uid, status); err != nil {
		w.cfg.Log.Warn("a status in the journal will be written once more", "uid", string(uid), "err", err)
	}
	if hook := w.cfg.Hooks.Acknowledged; hook != nil {
		hook(uid)
	}
}

// kind tells errors apart by what to do about them.
type kind uint8

const (
	none kind = iota
	// vanished means that there is no such pod any more.
	vanished
	// unreachable means that the API server does not answer, or not now.
	unreachable
	// refused is everything else.
	refused
)

func kindOf(err error) kind {
	switch {
	case err == nil:
		return none
	case apierrors.IsNotFound(err), apierrors.IsGone(err), err == errReplaced: //nolint:errorlint // it is never wrapped
		return vanished
	case apierrors.ReasonForError(err) == metav1.StatusReasonUnknown,
		apierrors.IsServiceUnavailable(err), apierrors.IsTooManyRequests(err),
		apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		return unreachable
	}
	return refused
}
