package statuswriter

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// Writer brings statuses to the API server.
type Writer struct {
	cfg     Config
	journal *journal
	wake    chan struct{}

	mu      sync.Mutex // guards the fields below, never held over a call or a write
	entries map[types.UID]*entry
	// have is what [Writer.Have] was told last; nil: nothing yet.
	have map[types.UID]bool
	// mirrors are those that were observed and are not gone, by their own UID.
	mirrors map[types.UID]mirror
	outage  outage
	// idle are closed when nothing is left to write.
	idle []chan struct{}
}

// Open reads the journal and returns a Writer that will write what it holds. The error
// beside a Writer names files of the journal that are damaged and were put aside.
func Open(cfg Config) (*Writer, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	w := &Writer{cfg: cfg, wake: make(chan struct{}, 1), entries: map[types.UID]*entry{}, mirrors: map[types.UID]mirror{}}
	if cfg.Dir == "" {
		return w, nil
	}
	var notes []*note
	var err error
	if w.journal, notes, err = openJournal(cfg.Dir); w.journal == nil {
		return nil, err
	}
	now := time.Now()
	for _, n := range notes {
		e := &entry{pod: n.pod(), status: &n.Status, version: 1, changed: now, due: now}
		w.entries[n.UID] = e
	}
	return w, err
}

// Set takes the newest status of a pod. A terminal one is in the journal when Set
// returns; the error says why it is not, and the status counts all the same. Statuses
// after a terminal one change neither the phase nor how containers ended.
//
// A pod without a name, as the rest of one of which only the UID is known, is passed
// over: nobody can be told of it.
func (w *Writer) Set(pod *corev1.Pod, status *corev1.PodStatus) error {
	return w.change(pod, func(old *corev1.PodStatus) *corev1.PodStatus { return follow(old, status) }, false)
}

// Finished says that nothing of a pod is left on the node but dead containers: no
// process, no volume, no cgroup. Its status is completed, and once the API server has
// it, a pod that was deleted is removed there.
func (w *Writer) Finished(pod *corev1.Pod) error {
	return w.change(pod, func(old *corev1.PodStatus) *corev1.PodStatus {
		if old.Phase == "" {
			old = &pod.Status
		}
		return finish(pod, old)
	}, true)
}

// change computes a new status from the old one, and takes it.
func (w *Writer) change(pod *corev1.Pod, next func(*corev1.PodStatus) *corev1.PodStatus, finished bool) error {
	if pod.Name == "" {
		return nil
	}
	old := &corev1.PodStatus{}
	w.mu.Lock()
	if e := w.entries[pod.UID]; e != nil && e.status != nil {
		old = e.status
	}
	w.mu.Unlock()
	status := next(old)
	var err error
	if podstatus.IsTerminal(status.Phase) && w.lacks(pod.UID, status) {
		err = w.journal.put(pod, status)
	}
	if w.take(pod, status, finished) {
		err = errors.Join(err, w.journal.drop(pod.UID, status)) // it went meanwhile
	}
	return err
}

// take makes a status the one to be told. It reports whether there is nobody to be told.
func (w *Writer) take(pod *corev1.Pod, status *corev1.PodStatus, finished bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entryLocked(pod)
	e.pod = pod
	e.finished = e.finished || finished
	if e.status == nil || !equality.Semantic.DeepEqual(e.status, status) {
		e.take(status, time.Now(), w.cfg.Batch)
	}
	w.wakeUp()
	return e.gone
}

// lacks reports whether the API server may have a pod and not its terminal status.
func (w *Writer) lacks(uid types.UID, status *corev1.PodStatus) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entries[uid]
	if e == nil {
		return true
	}
	same := e.status != nil && equality.Semantic.DeepEqual(e.status, status)
	return !e.gone && (!same || !e.acknowledged())
}

// entryLocked returns the entry of a pod of the node, and makes it if there is none. The
// mirror of a static pod may have been observed before.
func (w *Writer) entryLocked(pod *corev1.Pod) *entry {
	e := w.entries[pod.UID]
	if e == nil {
		e = &entry{pod: pod, server: w.mirrorLocked(pod)}
		e.gone = w.lacksLocked(pod)
		w.entries[pod.UID] = e
	}
	return e
}

// Observe takes what the API server has of a pod, as a watch delivers it. What differs
// from the status that was set is written again.
//
// For the mirror of a static pod, owner is the UID of that pod as the mirror tells it; for
// others it is empty. Whoever may make pods may write any UID there, so a mirror counts
// only for a static pod that has its namespace and name, too, and is nothing to all others.
func (w *Writer) Observe(pod *corev1.Pod, owner types.UID) {
	w.mu.Lock()
	uid, e := pod.UID, (*entry)(nil)
	if owner == "" {
		e = w.entryLocked(pod)
	} else {
		uid, e = owner, w.noteLocked(mirror{pod, owner})
	}
	told := e != nil && e.see(pod)
	var status *corev1.PodStatus
	if told {
		status = e.status
	}
	w.mu.Unlock()
	if told {
		w.release(uid, status)
	}
	w.wakeUp()
}

// Status returns the newest status of a pod. After a restart that is the one in the
// journal; a pod with a terminal one is not to be started again.
func (w *Writer) Status(uid types.UID) (corev1.PodStatus, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.entries[uid]; e != nil && e.status != nil {
		return *e.status.DeepCopy(), true
	}
	return corev1.PodStatus{}, false
}

// Acknowledged reports whether no terminal status of the pod waits for the API server:
// it has been told, or has the pod no more, or there is none. Until then the last dead
// container of the pod should stay.
func (w *Writer) Acknowledged(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entries[uid]
	return e == nil || e.acknowledged()
}

// Gone says that the API server has no such object any more, as a watch tells. The UID is
// that of the object: for the mirror of a static pod its own, not that of the static pod.
// Nothing is written for the pod until it is observed again, or its next mirror.
func (w *Writer) Gone(uid types.UID) {
	w.mu.Lock()
	uid, e := w.shownLocked(uid)
	if e == nil {
		w.mu.Unlock()
		return
	}
	waited := !e.acknowledged()
	e.gone, e.server = true, nil
	if next := w.mirrorLocked(e.pod); next != nil {
		e.observe(next, time.Now())
	}
	if !e.busy && (e.status == nil || e.dropped()) {
		delete(w.entries, uid) // who has not set a status will not forget it either
	}
	w.settledLocked()
	w.mu.Unlock()
	if waited {
		w.release(uid, nil)
	}
}

// Forget drops what is known of a pod that is in no source any more. A terminal status
// that the API server does not have stays, with the journal, until it has.
func (w *Writer) Forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entries[uid]
	if e == nil {
		return
	}
	e.forgotten = true
	if !e.busy && e.dropped() {
		delete(w.entries, uid)
		w.settledLocked()
	}
}

// Flush waits until everything that was set has been written, as before the machine
// goes down. It needs Run. The error says that ctx has ended before.
func (w *Writer) Flush(ctx context.Context) error {
	w.mu.Lock()
	now := time.Now()
	done := make(chan struct{})
	for _, e := range w.entries {
		if e.pending() && e.failures == 0 {
			e.due = now
		}
	}
	w.idle = append(w.idle, done)
	w.settledLocked()
	w.wakeUp()
	w.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return errors.Join(errors.New("flush statuses: some were not written"), context.Cause(ctx))
	}
}

// settledLocked tells those who wait that nothing is left to write.
func (w *Writer) settledLocked() {
	for _, e := range w.entries {
		if e.busy || e.pending() {
			return
		}
	}
	for _, done := range w.idle {
		close(done)
	}
	w.idle = nil
}

func (w *Writer) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
