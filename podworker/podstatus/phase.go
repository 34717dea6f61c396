package podstatus

import (
	corev1 "k8s.io/api/core/v1"
)

// Restarts reports whether a container that ended with this exit code is started
// again under a pod restart policy. The empty policy is Always.
func Restarts(policy corev1.RestartPolicy, exitCode int32) bool {
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return exitCode != 0
	}
	return true
}

// IsTerminal reports whether a phase is one a pod never leaves.
func IsTerminal(p corev1.PodPhase) bool {
	return p == corev1.PodFailed || p == corev1.PodSucceeded
}

// tally counts containers by what they mean for the phase.
type tally struct {
	running, waiting, stopped, succeeded, restartable, unknown int
}

func count(policy corev1.RestartPolicy, list []corev1.ContainerStatus) tally {
	var t tally
	for i := range list {
		st := &list[i]
		ended := st.State.Terminated
		if st.State.Waiting != nil {
			ended = st.LastTerminationState.Terminated
		}
		switch {
		case st.State.Running != nil:
			t.running++
		case ended == nil && st.State.Waiting != nil:
			t.waiting++
		case ended == nil:
			t.unknown++
		default:
			t.stopped++
			if ended.ExitCode == 0 && st.State.Terminated != nil {
				t.succeeded++
			}
			if Restarts(policy, ended.ExitCode) {
				t.restartable++
			}
		}
	}
	return t
}

// phase derives the phase from container statuses. Once stopped for good, a pod
// of an API server has an end even where its policy would restart it; a static pod
// has not.
func phase(in *Input, list []corev1.ContainerStatus) corev1.PodPhase {
	t := count(in.Pod.Spec.RestartPolicy, list)
	switch {
	case t.waiting > 0:
		return corev1.PodPending
	case t.running > 0 && t.unknown == 0:
		return corev1.PodRunning
	case t.running == 0 && t.stopped > 0 && t.unknown == 0:
		return ended(in, t)
	}
	return corev1.PodPending
}

func ended(in *Input, t tally) corev1.PodPhase {
	if in.Observed.Running() { // the runtime has lost the state of one
		return corev1.PodRunning
	}
	if t.restartable > 0 && (!in.Stopped || in.static()) {
		return corev1.PodRunning
	}
	if t.stopped == t.succeeded {
		return corev1.PodSucceeded
	}
	return corev1.PodFailed
}
