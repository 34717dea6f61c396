package node

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/lease/nodestatus/shutdown"
	"github.com/nodekit-go/nodekit/podworker"
	"github.com/nodekit-go/nodekit/podworker/admission"
	"github.com/nodekit-go/nodekit/podworker/events"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// askAgain is the time after which a pod that could not start yet is asked about
// again. It is asked sooner when another pod ends or the machine changes.
const askAgain = 10 * time.Second

// patience is how long a pod of an API server waits for what others hold before it fails:
// whoever wants it there makes another one, which may be placed elsewhere. One of a
// manifest has nobody who would, and waits as long as it takes. A kubelet fails both at once,
// also where another pod is about to end.
const patience = 20 * time.Second

// admissions are the pods that hold resources of the node, and those that wait for
// some.
type admissions struct {
	node func() admission.Node
	// closed says that the machine goes down: no pod starts any more.
	closed func() bool
	// alignment gives pods CPUs, memory and devices; nil: there is nothing to give.
	alignment *alignment
	log       *slog.Logger
	// late says what is not known of the node yet, and which pods are those of an earlier
	// process; without funcs all is known.
	late struct {
		unknown  func() unknown
		recalled func(types.UID) bool
	}

	mu       sync.Mutex // guards the fields below, also while it is decided
	admitted map[types.UID]*corev1.Pod
	// waiting has since when pods wait.
	waiting map[types.UID]time.Time
	// refused are pods for which CPUs, memory and devices were looked for in vain.
	refused map[types.UID]admission.Decision
	// changed is true if admitted has changed since it was last asked for.
	changed bool
}

func newAdmissions(node func() admission.Node, closed func() bool) *admissions {
	return &admissions{node: node, closed: closed, admitted: map[types.UID]*corev1.Pod{}, waiting: map[types.UID]time.Time{}, refused: map[types.UID]admission.Decision{}}
}

// ask decides about a pod. One that was admitted, or runs already, is not asked about
// again.
func (a *admissions) ask(ctx context.Context, pod *corev1.Pod, runs bool) admission.Decision {
	a.mu.Lock()
	defer a.mu.Unlock()
	d := admission.Decision{Verdict: admission.Admitted}
	if podstatus.IsTerminal(pod.Status.Phase) {
		return d // it holds nothing any more
	}
	switch {
	case a.admitted[pod.UID] != nil:
	case runs:
		a.restore(ctx, pod)
	case a.closed():
		d = admission.Decision{Verdict: admission.Never, Reason: shutdown.RefusedReason, Message: shutdown.RefusedMessage}
	default:
		d = a.decideLocked(ctx, pod)
	}
	since, waited := a.waiting[pod.UID]
	delete(a.waiting, pod.UID)
	switch d.Verdict {
	case admission.Admitted:
		a.holdLocked(pod)
	case admission.NotYet, admission.Preempt:
		if !waited || d.Verdict == admission.Preempt { // what it preempts may take longer
			since = time.Now()
		}
		a.waiting[pod.UID] = since
	case admission.Never:
	}
	return d
}

// decideLocked decides about a pod that is new, and gives it what it asks for. What one was
// refused is not looked for again.
func (a *admissions) decideLocked(ctx context.Context, pod *corev1.Pod) admission.Decision {
	if d, ok := a.refused[pod.UID]; ok {
		return d
	}
	d := a.compareLocked(pod)
	if d.Verdict == admission.Admitted {
		return a.alignLocked(ctx, pod)
	}
	if a.overdueLocked(pod, d) {
		d.Verdict = admission.Never
		return d
	}
	if d.Verdict != admission.Never || d.Reason == admission.ReasonEvicted || d.Reason == admission.ReasonSysctl {
		return d
	}
	// A kubelet asks for CPUs, memory and devices before it asks for what is missing.
	if first := a.alignLocked(ctx, pod); first.Verdict == admission.Never {
		return first
	}
	a.alignment.release(pod.UID)
	return d
}

// overdueLocked reports whether a pod has waited long enough. Before the node is known, nobody
// can tell what there is to wait for.
func (a *admissions) overdueLocked(pod *corev1.Pod, d admission.Decision) bool {
	since, waits := a.waiting[pod.UID]
	return d.Verdict == admission.NotYet && d.Reason != admission.ReasonNodeInfo && !ofManifest(pod) &&
		waits && time.Since(since) >= patience
}

// alignLocked gives a pod CPUs, memory and devices, and notes if it is refused.
func (a *admissions) alignLocked(ctx context.Context, pod *corev1.Pod) admission.Decision {
	d := a.alignment.admit(ctx, pod)
	if d.Verdict == admission.Never {
		a.refused[pod.UID] = d
	}
	return d
}

// restore has a pod that runs keep what it has. It is not refused any more.
func (a *admissions) restore(ctx context.Context, pod *corev1.Pod) {
	if err := a.alignment.restore(ctx, pod); err != nil {
		a.log.Warn("pod runs without CPUs, memory or devices of its own that it asks for", "pod", fullName(pod), "uid", string(pod.UID), "err", err)
	}
}

// holdLocked notes what a pod holds. One that holds something already may ask for other
// resources by now, see resize.
func (a *admissions) holdLocked(pod *corev1.Pod) {
	if a.admitted[pod.UID] == nil {
		a.admitted[pod.UID] = pod
		a.changed = true
	}
}

// release takes back what pods held, and returns those that wait.
func (a *admissions) release(gone func(types.UID) bool) []types.UID {
	a.mu.Lock()
	defer a.mu.Unlock()
	held := len(a.admitted)
	maps.DeleteFunc(a.admitted, func(uid types.UID, _ *corev1.Pod) bool {
		if !gone(uid) {
			return false
		}
		a.alignment.release(uid)
		return true
	})
	a.changed = a.changed || len(a.admitted) != held
	maps.DeleteFunc(a.waiting, func(uid types.UID, _ time.Time) bool { return gone(uid) })
	maps.DeleteFunc(a.refused, func(uid types.UID, _ admission.Decision) bool { return gone(uid) })
	return slices.Collect(maps.Keys(a.waiting))
}

// differ reports whether other pods hold resources than when it was last called.
func (a *admissions) differ() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	changed := a.changed
	a.changed = false
	return changed
}

// active returns the pods that hold resources.
func (a *admissions) active() []*corev1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.activeLocked()
}

func (a *admissions) activeLocked() []*corev1.Pod { return slices.Collect(maps.Values(a.admitted)) }

// admissionNode describes the node to the decision.
func (n *Node) admissionNode() admission.Node {
	r := n.resources.p.Load()
	return admission.Node{Node: n.devices.decides(n.object()), AppArmor: r.machine.AppArmor, Sysctls: n.sysctls}
}

// runs reports whether the runtime has anything of a pod.
func (a *agent) runs(uid types.UID) bool {
	snap := a.snapshot.Load()
	return snap != nil && snap.Pods[uid] != nil
}

// admit asks about new pods: first about those that run, then about the others in the
// order of the set, so that the same of them start each time when there is no room
// for all. Those of an earlier set that never started give back what they held. The
// answers come again when the pods' workers ask. A pod that has ended holds nothing.
func (a *agent) admit(ctx context.Context, pods []*corev1.Pod) {
	a.releaseIf(func(uid types.UID) bool {
		s, known := a.pool.State(uid)
		return !a.catalog.wants(uid) && (!known || s.Done())
	})
	for _, running := range []bool{true, false} {
		for _, pod := range pods {
			s, known := a.pool.State(pod.UID)
			if a.runs(pod.UID) == running && (!known || !s.Done()) {
				a.admissions.ask(ctx, pod, running)
			}
		}
	}
}

// releaseIf takes back what pods held that are gone, and has those that wait asked
// about again.
func (a *agent) releaseIf(gone func(types.UID) bool) {
	for _, uid := range a.admissions.release(gone) {
		a.pool.Wake(uid)
	}
}

// wakeWaiting has the pods that wait asked about again.
func (a *agent) wakeWaiting() { a.releaseIf(func(types.UID) bool { return false }) }

// Sync starts a pod, if the node takes it.
func (c cleaner) Sync(ctx context.Context, pod *corev1.Pod) (podworker.Outcome, error) {
	a := c.agent
	defer a.metrics.works(pod.UID, "sync")()
	if why, held := a.hold(pod); held {
		return a.wait(pod, why), nil
	}
	d := a.admissions.ask(ctx, pod, a.runs(pod.UID))
	if (d.Reason == admission.ReasonNodeAffinity || d.Reason == admission.ReasonNodeInfo) && a.beat.refresh(ctx) {
		// The scheduler may have seen labels that the node has not.
		d = a.admissions.ask(ctx, pod, a.runs(pod.UID))
	}
	if d.Verdict == admission.Admitted {
		d = a.equip(ctx, pod)
	}
	if d.Verdict == admission.Admitted {
		return c.Syncer.Sync(ctx, pod)
	}
	log := a.log.With("pod", fullName(pod), "uid", string(pod.UID))
	switch d.Verdict {
	case admission.Never:
		log.Warn("pod is refused", "reason", d.Reason, "message", d.Message)
		a.metrics.tally.rejected.WithLabelValues(d.Reason).Inc()
		a.refused(pod, d)
		a.pool.Terminate(pod.UID, podworker.Termination{Phase: corev1.PodFailed, Reason: d.Reason, Message: "Pod was rejected: " + d.Message})
		return podworker.Outcome{}, nil
	case admission.Preempt:
		d.Reason, d.Message = admission.ReasonPreempting, "waits until the pods that it preempts have ended"
		for _, victim := range d.Victims {
			a.preempt(victim, pod)
		}
	}
	if last, _ := a.catalog.status(pod.UID); last.Reason != d.Reason {
		log.Warn("pod cannot start yet", "reason", d.Reason, "message", d.Message)
		if d.Verdict == admission.NotYet {
			a.refused(pod, d)
		}
	}
	a.setStatus(pod, corev1.PodStatus{
		Phase: corev1.PodPending, Reason: d.Reason, Message: d.Message, QOSClass: podstatus.QOSClass(pod), ObservedGeneration: pod.Generation,
	})
	return podworker.Outcome{Again: askAgain}, nil
}

// refused tells why a pod does not start, in the words of the kubelet.
func (a *agent) refused(pod *corev1.Pod, d admission.Decision) {
	a.events.Record(events.OfPod(pod, ""), corev1.EventTypeWarning, d.Reason, d.Message)
}

// preempt ends a pod for a more important one.
func (a *agent) preempt(victim, pod *corev1.Pod) {
	if a.ending(victim.UID) {
		return
	}
	a.log.Warn("pod is preempted", "pod", fullName(victim), "uid", string(victim.UID), "for", fullName(pod))
	a.metrics.tally.preemptions.WithLabelValues("").Inc()
	a.events.Record(events.OfPod(victim, ""), corev1.EventTypeWarning, admission.ReasonPreempting, admission.MessagePreempting)
	// As on a stock kubelet, one whose containers all end with 0 has succeeded. Of the end
	// of a manifest's pod containers imply nothing: it would be started anew.
	var phase corev1.PodPhase
	if ofManifest(victim) {
		phase = corev1.PodFailed
	}
	a.pool.Terminate(victim.UID, podworker.Termination{
		Phase: phase, Reason: admission.ReasonPreempting, Message: admission.MessagePreempting,
		Conditions: []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet,
			Message: admission.MessagePreempting, LastTransitionTime: metav1.Now(),
		}},
	})
}
