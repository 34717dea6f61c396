package podworker

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// worker is the machine's record of one pod.
type worker struct {
	pod   *corev1.Pod
	phase Phase
	// name is the full name the pod shares with no other started pod; empty for a
	// pod that has no such claim.
	name string
	// due is when the next call is to be made; zero while a call is out and in
	// phases without calls.
	due time.Time
	out out
	// started is true once Sync has been called.
	started bool
	// deleted is true when the pod was deleted in its source or vanished from it.
	deleted bool
	// gone is true when the pod vanished from its source, so that seeing its UID
	// again means that it was put back.
	gone bool
	// restart is the pod that starts under the same UID when this one finished.
	restart *corev1.Pod
	ending  ending
	birth   uint64
}

// out is the call that is out, and what the last one left.
type out struct {
	// phase of the call that is out; Unknown when none is.
	phase Phase
	since time.Time
	// dirty is true when something happened during the call.
	dirty bool
	// interrupted is true when the machine cancelled the call.
	interrupted bool
	// failed is when the last call returned an error, err which one.
	failed time.Time
	err    error
}

// ending is how the pod terminates.
type ending struct {
	// Termination is merged from all requests; Grace is the shortest asked for.
	Termination
	// deadline is when the grace period is over; zero until the first call of
	// SyncTerminating, which is when the period begins.
	deadline time.Time
}

// shrink takes a request for grace period g made now, and reports whether that
// leaves less time than before.
func (e *ending) shrink(now time.Time, g time.Duration) bool {
	shorter := e.Grace == 0 || g < e.Grace
	if shorter {
		e.Grace = g
	}
	if e.deadline.IsZero() {
		return shorter
	}
	if end := now.Add(g); end.Before(e.deadline) {
		e.deadline = end
		return true
	}
	return false
}

// begin returns what a call of SyncTerminating made now is told.
func (e *ending) begin(now time.Time) Termination {
	if e.deadline.IsZero() {
		e.deadline = now.Add(e.Grace)
	}
	t := e.Termination
	t.Grace = max(e.deadline.Sub(now), MinGrace)
	return t
}

// merge adds a further request; the first cause stays the cause.
func (e *ending) merge(t Termination) {
	e.Evicted = e.Evicted || t.Evicted
	if e.Reason == "" && t.Reason != "" {
		e.Reason, e.Message, e.Phase, e.Conditions = t.Reason, t.Message, t.Phase, t.Conditions
	}
}

// graceOf resolves the period that t asks for on behalf of pod.
func graceOf(pod *corev1.Pod, t Termination) time.Duration {
	g := t.Grace
	if g == 0 {
		g = ownGrace(pod)
	}
	return max(g, MinGrace)
}

// ownGrace is the period that the pod states itself. 30 s is the API's default of
// spec.terminationGracePeriodSeconds.
func ownGrace(pod *corev1.Pod) time.Duration {
	seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
	switch {
	case pod.DeletionGracePeriodSeconds != nil:
		seconds = *pod.DeletionGracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		seconds = *pod.Spec.TerminationGracePeriodSeconds
	}
	const most = int64(1<<63-1) / int64(time.Second)
	return time.Duration(max(0, min(seconds, most))) * time.Second
}

// sourceAnnotation names the source of a pod: api, file or http
// (k8s.io/kubelet documents it with the mirror pods).
const sourceAnnotation = "kubernetes.io/config.source"

// claim returns the full name that only one started pod may have. Pods of the API
// make no such claim: the API server keeps their names apart.
func claim(pod *corev1.Pod) string {
	switch pod.Annotations[sourceAnnotation] {
	case "", "api":
		return ""
	}
	return pod.Namespace + "/" + pod.Name
}

// over reports whether the pod has to end by what its own object says.
func over(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil ||
		pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// state is the worker as the outside sees it.
func (w *worker) state() State {
	s := State{
		Phase:   w.phase,
		Started: w.started,
		Deleted: w.deleted,
		Restart: w.restart != nil,
		Err:     w.out.err,
		birth:   w.birth,
	}
	if w.phase >= Terminating {
		s.Termination = w.ending.Termination
	}
	if w.out.phase != Unknown {
		s.BusySince = w.out.since
	}
	return s
}

// uid of the pod.
func (w *worker) uid() types.UID { return w.pod.UID }
