package statuswriter

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// entry is what a Writer knows of one pod.
type entry struct {
	// pod is the pod of the node.
	pod *corev1.Pod
	// status is what is to be told; nil: nothing yet.
	status *corev1.PodStatus
	// version grows with each change of status, written is the one that the API server
	// has.
	version, written uint64
	// server is the pod as the API server has it; nil: not known.
	server *corev1.Pod
	// changed is when status became what it is, due when it may be written.
	changed, due time.Time
	// failures counts attempts in a row that the API server refused: the next one reads
	// what it has. deferred is true when the last one did not reach it.
	failures int
	deferred bool
	// finished is true when the node has finished with the pod.
	finished bool
	// gone is true when the API server has no such pod, forgotten when the node has not.
	gone, forgotten bool
	// busy is true while the pod is written.
	busy bool
}

// take makes a status the one to be told.
func (e *entry) take(status *corev1.PodStatus, now time.Time, batch time.Duration) {
	due := now
	before := e.status
	if before == nil && e.server != nil {
		before = &e.server.Status
	}
	if !urgent(before, status) {
		due = now.Add(max(batch, 0))
	}
	if !e.pending() || (due.Before(e.due) && e.failures == 0) {
		e.due = due
	}
	e.status, e.changed = status, now
	e.version++
}

// urgent reports whether a change is one that others wait for.
func urgent(old, next *corev1.PodStatus) bool {
	if podstatus.IsTerminal(next.Phase) {
		return true
	}
	return ready(next) != (old != nil && ready(old))
}

func ready(s *corev1.PodStatus) bool {
	c := find(s.Conditions, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// target returns the UID of the object to be written, empty if there is none.
func (e *entry) target() types.UID {
	switch {
	case e.gone:
		return ""
	case e.server != nil:
		return e.server.UID
	case isStatic(e.pod):
		return "" // its mirror has not been seen
	}
	return e.pod.UID
}

// pending reports whether there is anything to write.
func (e *entry) pending() bool {
	return e.target() != "" && e.status != nil && (e.version != e.written || e.removable())
}

// removable reports whether the API server is to remove the pod: it was deleted, its
// end is known there, and the node has finished with it.
func (e *entry) removable() bool {
	return e.finished && e.server != nil && e.server.DeletionTimestamp != nil &&
		!isMirror(e.server) && podstatus.IsTerminal(e.server.Status.Phase)
}

// acknowledged reports whether no terminal status waits for the API server.
func (e *entry) acknowledged() bool {
	switch {
	case e.gone, e.status == nil, !podstatus.IsTerminal(e.status.Phase):
		return true
	case isStatic(e.pod) && e.server == nil:
		return true // nobody is there to be told
	}
	return e.version == e.written && !runs(e.status)
}

// dropped reports whether a forgotten pod needs to be remembered no more.
func (e *entry) dropped() bool { return e.forgotten && e.acknowledged() }

// observe takes what the API server has. An older version than the one that is known
// is passed over.
func (e *entry) observe(pod *corev1.Pod, now time.Time) {
	if e.server != nil && e.server.UID == pod.UID && older(pod.ResourceVersion, e.server.ResourceVersion) {
		return
	}
	known := e.server != nil && e.server.UID == pod.UID
	e.server, e.gone = pod, false
	if e.status == nil {
		return
	}
	changed, err := patch(pod.UID, &pod.Status, merge(&pod.Status, e.status))
	switch {
	case err == nil && changed == nil:
		e.written = e.version
	case e.written == e.version:
		e.written, e.due = e.version-1, now
	}
	if !known || e.removable() {
		e.due, e.failures = now, 0
	}
}

// task returns the entry as it is to be written now.
func (e *entry) task(uid types.UID) task {
	return task{
		uid: uid, pod: e.pod, target: e.target(),
		server: e.server, ask: e.failures > 0,
		status: e.status, version: e.version, changed: e.changed,
		finished: e.finished,
	}
}

// learn takes in that a task was done, and what the API server has since.
func (e *entry) learn(t *task, pod *corev1.Pod, now time.Time) {
	e.failures, e.due = 0, now
	if e.server != t.server && e.server != nil && older(pod.ResourceVersion, e.server.ResourceVersion) {
		// Somebody else has written after that, and it was observed before the answer:
		// whether the status is still there, only that tells.
		e.observe(e.server, now)
		return
	}
	e.server, e.written = pod, t.version
}

// older reports whether a version of an object comes before another; versions that
// cannot be compared are not.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// rank orders what is due: how a pod ended before readiness before the rest.
func (e *entry) rank() int {
	switch {
	case podstatus.IsTerminal(e.status.Phase) && !e.acknowledged():
		return 0
	case e.server != nil && ready(&e.server.Status) != ready(e.status):
		return 1
	case e.removable():
		return 2
	}
	return 3
}
