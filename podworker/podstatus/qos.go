package podstatus

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// QOSClass returns the quality-of-service class of a pod: Guaranteed when every
// container has limits for cpu and memory equal to its requests, BestEffort when
// none has any of them, else Burstable
// (https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/). A request left
// out counts as equal to the limit. Resources of the pod as a whole decide alone.
func QOSClass(pod *corev1.Pod) corev1.PodQOSClass {
	t := shape{guaranteed: true}
	if r := pod.Spec.Resources; r != nil && setsAny(r) {
		t.add(r)
		return t.class()
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			t.add(&list[i].Resources)
		}
	}
	return t.class()
}

// setsAny reports whether resources of a pod name any that can be given to pods.
func setsAny(r *corev1.ResourceRequirements) bool {
	for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
		for name := range list {
			if name == corev1.ResourceCPU || name == corev1.ResourceMemory || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
				return true
			}
		}
	}
	return false
}

// shape is what the resources looked at so far have in common.
type shape struct{ guaranteed, any bool }

func (s *shape) add(r *corev1.ResourceRequirements) {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		request, limit := amounts(r, name)
		s.any = s.any || request > 0 || limit > 0
		s.guaranteed = s.guaranteed && limit > 0 && request == limit
	}
}

func (s *shape) class() corev1.PodQOSClass {
	switch {
	case !s.any:
		return corev1.PodQOSBestEffort
	case s.guaranteed:
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
