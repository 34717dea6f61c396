package podsync

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// What is said of a pod that ran for too long; the words are the kubelet's.
const (
	reasonDeadline  = "DeadlineExceeded"
	messageDeadline = "Pod was active on the node longer than the specified deadline"
)

// deadline returns how long the pod may still run, and whether it has a limit at all.
// It counts from the start of the pod as its status has it
// (https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#detailed-behavior).
func deadline(pod *corev1.Pod, st *corev1.PodStatus, now time.Time) (left time.Duration, limited bool) {
	if pod.Spec.ActiveDeadlineSeconds == nil || st == nil || st.StartTime == nil {
		return 0, false
	}
	return st.StartTime.Add(period(*pod.Spec.ActiveDeadlineSeconds)).Sub(now), true
}

// expire ends a pod whose deadline is over. Its status says so once it is stopped.
func (s *Syncer) expire(pod *corev1.Pod, r *record) podworker.Outcome {
	if r.once(toldDeadline, "") {
		s.normal(pod, "", reasonDeadline, messageDeadline)
	}
	r.fate = podstatus.End{Phase: corev1.PodFailed, Reason: reasonDeadline, Message: messageDeadline}
	return podworker.Outcome{Terminal: true}
}

// inTime makes a pod with a deadline be looked at when that is over, and its errors be
// retried no later.
func inTime(out podworker.Outcome, err error, left time.Duration) (podworker.Outcome, error) {
	left = max(left, time.Millisecond)
	if out.Again == 0 || left < out.Again {
		out.Again = left
	}
	if err != nil {
		err = within(err, left)
	}
	return out, err
}
