package admission

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Resize decides whether a pod that runs may have the resources that it asks for now.
// Active are the pods that hold resources of the node, with what they have of it; the pod
// itself may be among them, with what it has now.
//
// The verdict is Admitted; NotYet if others would have to give something back, which a
// status calls Deferred; Never if the node does not offer as much at all, which it calls
// Infeasible. Nobody is preempted for it: that is for the scheduler.
func Resize(pod *corev1.Pod, active []*corev1.Pod, node *corev1.Node) Decision {
	if node == nil {
		return refuse(NotYet, corev1.PodReasonDeferred, messageNodeInfo)
	}
	others := slices.DeleteFunc(slices.Clone(active), func(other *corev1.Pod) bool { return other.UID == pod.UID })
	var deferred *Decision
	for _, s := range shortages(pod, others, node) {
		switch {
		case s.name != corev1.ResourceCPU && s.name != corev1.ResourceMemory: // cannot change under a pod
		case s.requested > s.capacity:
			return refuse(Never, corev1.PodReasonInfeasible, "Node didn't have enough capacity: %s, requested: %d, capacity: %d", s.name, s.requested, s.capacity)
		case deferred == nil:
			d := s.decision()
			d.Reason = corev1.PodReasonDeferred
			deferred = &d
		}
	}
	if deferred != nil {
		return *deferred
	}
	return admit()
}
