package admission

import (
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// The annotations that tell where a pod comes from; the second is on the copy of a
// static pod that the API server has
// (https://kubernetes.io/docs/reference/labels-annotations-taints).
const (
	annotationSource = "kubernetes.io/config.source"
	annotationMirror = "kubernetes.io/config.mirror"
)

// lowestCritical is the priority from which pods are critical: that of the class
// system-cluster-critical
// (https://kubernetes.io/docs/tasks/administer-cluster/guaranteed-scheduling-critical-addon-pods).
const lowestCritical = 2_000_000_000

// IsStatic reports whether the pod comes from the node's own files, not from an API
// server.
func IsStatic(pod *corev1.Pod) bool {
	source, ok := pod.Annotations[annotationSource]
	return ok && source != "api"
}

// IsCritical reports whether the node cannot do without the pod: it is static, or
// the copy of a static pod, or its priority is that of the system.
func IsCritical(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[annotationMirror]
	return mirror || IsStatic(pod) || pod.Spec.Priority != nil && *pod.Spec.Priority >= lowestCritical
}

// preempts reports whether one pod may take the place of another.
func preempts(pod, other *corev1.Pod) bool {
	if IsCritical(pod) && !IsCritical(other) {
		return true
	}
	return pod.Spec.Priority != nil && other.Spec.Priority != nil && *pod.Spec.Priority > *other.Spec.Priority
}

// containers yields the containers and the init containers.
func containers(pod *corev1.Pod) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// tolerates reports whether a pod puts up with a taint
// (https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration).
// The comparing operators are for schedulers.
func tolerates(pod *corev1.Pod, taint corev1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
			return false
		}
		switch t.Operator {
		case corev1.TolerationOpExists:
			return true
		case corev1.TolerationOpEqual, "":
			return t.Key != "" && t.Value == taint.Value
		}
		return false
	})
}
