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
	// pendingInit are init containers that are not done, failedInit those that will
	// not be tried again, pendingSidecars those that have not started.
	pendingInit, failedInit, pendingSidecars int
	// The others are regular containers; sidecars count among running and waiting.
	running, waiting, stopped, succeeded, restartable, unknown int
}

// end returns how a container ended that does not run, nil if it has not.
func end(st *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if st.State.Waiting != nil {
		return st.LastTerminationState.Terminated
	}
	return st.State.Terminated
}

// restarts reports whether a container that has ended is started again.
func restarts(in *Input, c *corev1.Container, st *corev1.ContainerStatus) bool {
	ended := end(st)
	switch {
	case in.RestartingAll, ended.Reason == ReasonRestartingAll, RestartsContainer(in.Pod, c, ended.ExitCode):
		return true
	}
	return (st.State.Waiting != nil || in.stoppedToStart(st)) && RestartsAfterKill(in.Pod, c)
}

// stoppedToStart reports whether the newest run of a container was stopped so that it
// starts again.
func (in *Input) stoppedToStart(st *corev1.ContainerStatus) bool {
	for id := range in.Again {
		if in.containerID(id) == st.ContainerID {
			return true
		}
	}
	return false
}

func (t *tally) init(in *Input, c *corev1.Container, st *corev1.ContainerStatus) {
	ended := end(st)
	switch {
	case ended == nil:
		t.pendingInit++
	case ended.ExitCode != 0 && !restarts(in, c, st):
		t.failedInit++
	}
}

func (t *tally) sidecar(st *corev1.ContainerStatus) {
	switch {
	case st.State.Running != nil:
		t.running++
		if st.Started == nil || !*st.Started {
			t.pendingSidecars++
		}
	case st.State.Waiting != nil && end(st) == nil:
		t.waiting++
		t.pendingSidecars++
	}
}

func (t *tally) regular(in *Input, c *corev1.Container, st *corev1.ContainerStatus) {
	ended := end(st)
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
		if restarts(in, c, st) {
			t.restartable++
		}
	}
}

// count goes through the statuses, which are in the order of the spec.
func count(in *Input, st *corev1.PodStatus) tally {
	var t tally
	pod := in.Pod
	for i := range st.InitContainerStatuses {
		c := &pod.Spec.InitContainers[i]
		if IsSidecar(c) {
			t.sidecar(&st.InitContainerStatuses[i])
		} else {
			t.init(in, c, &st.InitContainerStatuses[i])
		}
	}
	for i := range st.ContainerStatuses {
		t.regular(in, &pod.Spec.Containers[i], &st.ContainerStatuses[i])
	}
	return t
}

// phase derives the phase from container statuses. Once stopped for good, a pod
// of an API server has an end even where its policy would restart it; a static pod
// has not.
func phase(in *Input, st *corev1.PodStatus) corev1.PodPhase {
	t := count(in, st)
	p := corev1.PodPending
	switch {
	case t.failedInit > 0:
		return corev1.PodFailed
	case t.pendingInit > 0, t.pendingSidecars > 0 && !anyStarted(st.ContainerStatuses), t.waiting > 0:
	case t.running > 0 && t.unknown == 0:
		return corev1.PodRunning
	case t.running == 0 && t.stopped > 0 && t.unknown == 0:
		p = ended(in, t)
	}
	if in.Stopped && !in.static() && !IsTerminal(p) && !in.Observed.Running() {
		return corev1.PodFailed
	}
	return p
}

// anyStarted reports whether any of these containers runs or has ended.
func anyStarted(list []corev1.ContainerStatus) bool {
	for i := range list {
		if list[i].State.Running != nil || list[i].State.Terminated != nil {
			return true
		}
	}
	return false
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
