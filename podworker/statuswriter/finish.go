package statuswriter

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// What is told of containers whose end nobody saw. The values are the kubelet's.
const (
	lostReason  = "ContainerStatusUnknown"
	lostMessage = "The container could not be located when the pod was terminated"
	lostExit    = 137
)

// finish completes the status of a pod that the node has finished with: containers that
// could have run have ended, by 137 if nobody knows better, and the pod has ended too.
// A static pod keeps its phase.
func finish(pod *corev1.Pod, status *corev1.PodStatus) *corev1.PodStatus {
	out := status.DeepCopy()
	if initialized(pod, status) {
		lose(out.ContainerStatuses)
	}
	lose(begun(out.InitContainerStatuses))
	if !isStatic(pod) && !podstatus.IsTerminal(out.Phase) {
		out.Phase = corev1.PodFailed
	}
	return out
}

func lose(list []corev1.ContainerStatus) {
	for i := range list {
		if list[i].State.Terminated == nil {
			list[i].Ready = false
			list[i].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				Reason: lostReason, Message: lostMessage, ExitCode: lostExit,
			}}
		}
	}
}

// begun returns the init containers up to the last that has run; the first may have,
// without anybody having seen it.
func begun(list []corev1.ContainerStatus) []corev1.ContainerStatus {
	for i, c := range slices.Backward(list) {
		if c.State.Waiting == nil || c.LastTerminationState.Terminated != nil {
			return list[:i+1]
		}
	}
	return list[:min(1, len(list))]
}

// initialized reports whether a regular container of the pod may have run.
func initialized(pod *corev1.Pod, status *corev1.PodStatus) bool {
	if len(pod.Spec.InitContainers) == 0 {
		return true
	}
	for i := range status.ContainerStatuses {
		if c := &status.ContainerStatuses[i]; c.LastTerminationState.Terminated != nil || c.State.Waiting == nil {
			return true
		}
	}
	n := len(status.InitContainerStatuses)
	if n == 0 || n != len(pod.Spec.InitContainers) {
		return false
	}
	last := &status.InitContainerStatuses[n-1]
	if podstatus.IsSidecar(&pod.Spec.InitContainers[n-1]) {
		return last.State.Running != nil && last.Started != nil && *last.Started
	}
	for _, t := range []*corev1.ContainerStateTerminated{last.State.Terminated, last.LastTerminationState.Terminated} {
		if t != nil && t.ExitCode == 0 {
			return true
		}
	}
	return false
}
