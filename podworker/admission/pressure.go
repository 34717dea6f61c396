package admission

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// memoryTaint is how a node under memory pressure is marked
// (https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction).
func memoryTaint() corev1.Taint {
	return corev1.Taint{Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoSchedule}
}

// checkPressure keeps pods away from a node that is short of something. Memory is
// short for those only that ask for none and do not put up with it.
func checkPressure(pod *corev1.Pod, node *corev1.Node) Decision {
	pressures := pressures(node)
	if len(pressures) == 0 || IsCritical(pod) {
		return admit()
	}
	if len(pressures) == 1 && pressures[0] == corev1.NodeMemoryPressure {
		if podstatus.QOSClass(pod) != corev1.PodQOSBestEffort || tolerates(pod, memoryTaint()) {
			return admit()
		}
	}
	return refuse(NotYet, ReasonEvicted, "The node had condition: %v. ", pressures)
}

func pressures(node *corev1.Node) []corev1.NodeConditionType {
	var types []corev1.NodeConditionType
	for _, c := range node.Status.Conditions {
		switch c.Type {
		case corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure:
			if c.Status == corev1.ConditionTrue {
				types = append(types, c.Type)
			}
		default: // is no pressure
		}
	}
	return types
}
