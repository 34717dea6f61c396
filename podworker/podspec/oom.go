package podspec

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// The OOM scores of containers by quality of service
// (https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#node-out-of-memory-behavior).
const (
	scoreGuaranteed = -997
	scoreBestEffort = 1000
	scoreSteps      = 1000
	scoreMin        = 3
	scoreMax        = 999
)

// nodeCritical is the priority class whose pods are killed as late as Guaranteed
// ones.
const nodeCritical = "system-node-critical"

// oomScore returns the oom_score_adj of a container: the larger, the earlier the
// kernel kills it when memory is short. A sidecar is not killed before the regular
// containers of its pod.
func oomScore(pod *corev1.Pod, c *corev1.Container, nodeMemory int64) int64 {
	class := podstatus.QOSClass(pod)
	switch {
	case pod.Spec.PriorityClassName == nodeCritical, class == corev1.PodQOSGuaranteed:
		return scoreGuaranteed
	case class == corev1.PodQOSBestEffort:
		return scoreBestEffort
	case nodeMemory <= 0:
		return scoreMax
	}
	request := memoryRequest(c)
	if podstatus.IsSidecar(c) && isInit(pod, c) {
		request = max(request, leastRequest(pod))
	}
	score := scoreSteps - scoreSteps*(request+surplus(pod))/nodeMemory
	return min(max(score, scoreMin), scoreMax)
}

// memoryRequest is the memory a container asks for, which is the limit where it asks
// for nothing.
func memoryRequest(c *corev1.Container) int64 {
	request, ok := c.Resources.Requests[corev1.ResourceMemory]
	if !ok {
		request = c.Resources.Limits[corev1.ResourceMemory]
	}
	return request.Value()
}

// leastRequest is the smallest memory request of a regular container.
func leastRequest(pod *corev1.Pod) int64 {
	least := int64(-1)
	for i := range pod.Spec.Containers {
		if n := memoryRequest(&pod.Spec.Containers[i]); least < 0 || n < least {
			least = n
		}
	}
	return max(least, 0)
}

// surplus is each container's share of the memory that the pod asks for beyond what
// its containers do
// (https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/2837-pod-level-resource-spec#oom-score-adjustment).
func surplus(pod *corev1.Pod) int64 {
	if !resourcehelper.IsPodLevelRequestsSet(pod) {
		return 0
	}
	whole, ok := pod.Spec.Resources.Requests[corev1.ResourceMemory]
	if !ok {
		return 0
	}
	left, n := whole.Value(), int64(0)
	for c := range lasting(pod) {
		left -= memoryRequest(c)
		n++
	}
	return max(left, 0) / max(n, 1)
}

// isInit reports whether c is from the init containers of the pod. Names are unique
// in a pod.
func isInit(pod *corev1.Pod, c *corev1.Container) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(i corev1.Container) bool { return i.Name == c.Name })
}
