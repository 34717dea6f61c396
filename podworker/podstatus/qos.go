package podstatus

import (
	corev1 "k8s.io/api/core/v1"
)

// QOSClass returns the quality-of-service class of a pod: Guaranteed when every
// container has limits for cpu and memory equal to its requests, BestEffort when
// none has any of them, else Burstable
// (https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/). A request left
// out counts as equal to the limit.
func QOSClass(pod *corev1.Pod) corev1.PodQOSClass {
	guaranteed, any := true, false
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				request, limit := amounts(&list[i].Resources, name)
				any = any || request > 0 || limit > 0
				guaranteed = guaranteed && limit > 0 && request == limit
			}
		}
	}
	switch {
	case !any:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

// amounts returns request and limit of a resource in thousandths, the request
// defaulted to the limit.
func amounts(r *corev1.ResourceRequirements, name corev1.ResourceName) (request, limit int64) {
	if q, ok := r.Limits[name]; ok {
		limit = q.MilliValue()
	}
	if q, ok := r.Requests[name]; ok {
		return q.MilliValue(), limit
	}
	return limit, limit
}
