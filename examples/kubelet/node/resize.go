package node

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/admission"
)

// resize decides whether a pod may have the resources that it asks for now. Until then it
// holds what it has.
func (a *admissions) resize(pod, has *corev1.Pod) admission.Decision {
	a.mu.Lock()
	defer a.mu.Unlock()
	d := admission.Resize(pod, a.activeLocked(), a.node().Node)
	if why := a.alignment.resizes(pod, has); why != "" {
		d = admission.Decision{Verdict: admission.Never, Reason: corev1.PodReasonInfeasible, Message: why}
	}
	a.changed = true
	switch d.Verdict {
	case admission.Admitted:
		a.admitted[pod.UID] = pod
	default:
		a.admitted[pod.UID] = has
		if d.Verdict == admission.NotYet {
			a.waiting[pod.UID] = time.Now()
		}
	}
	return d
}

// Resize is the podsync.Resizer of the agent. What one pod gives back may be what others
// wait for: they are asked about at once, as when a pod ends.
func (a *agent) Resize(_ context.Context, pod, has *corev1.Pod) (reason, message string) {
	d := a.admissions.resize(pod, has)
	if d.Verdict == admission.Admitted {
		a.wakeWaiting()
	}
	return d.Reason, d.Message
}
