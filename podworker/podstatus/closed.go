package podstatus

import corev1 "k8s.io/api/core/v1"

// closeStatuses gives containers that never came to run a final state once the pod is
// stopped for good. Those whose turn had not come keep waiting: the regular ones of a
// pod that was not initialized, and the init containers behind the last one that ran.
func closeStatuses(in *Input, st *corev1.PodStatus) {
	if initialized(in, st) {
		for i := range st.ContainerStatuses {
			closeStatus(&st.ContainerStatuses[i])
		}
	}
	last := 0
	for i := range st.InitContainerStatuses {
		if hasRun(&st.InitContainerStatuses[i]) {
			last = i
		}
	}
	for i := range st.InitContainerStatuses {
		if i <= last {
			closeStatus(&st.InitContainerStatuses[i])
		}
	}
	for i := range st.EphemeralContainerStatuses {
		closeStatus(&st.EphemeralContainerStatuses[i])
	}
}

func closeStatus(st *corev1.ContainerStatus) {
	if st.State.Waiting == nil {
		return
	}
	if st.LastTerminationState.Terminated != nil {
		st.State, st.LastTerminationState = st.LastTerminationState, corev1.ContainerState{}
		return
	}
	st.State = lostState("terminated", st.ContainerID)
}

// hasRun reports whether a container has run at least once.
func hasRun(st *corev1.ContainerStatus) bool {
	return st.State.Waiting == nil || st.LastTerminationState.Terminated != nil
}

// initialized reports whether the regular containers of a pod have had their turn.
func initialized(in *Input, st *corev1.PodStatus) bool {
	for i := range st.ContainerStatuses {
		if hasRun(&st.ContainerStatuses[i]) {
			return true
		}
	}
	n := len(st.InitContainerStatuses)
	if n == 0 {
		return true
	}
	last := &st.InitContainerStatuses[n-1]
	if IsSidecar(&in.Pod.Spec.InitContainers[n-1]) {
		return last.State.Running != nil && last.Started != nil && *last.Started
	}
	return succeeded(last.State.Terminated) || succeeded(last.LastTerminationState.Terminated)
}

func succeeded(t *corev1.ContainerStateTerminated) bool { return t != nil && t.ExitCode == 0 }
