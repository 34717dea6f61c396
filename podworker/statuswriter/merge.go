package statuswriter

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// ours reports whether the node says whether a condition holds. Other conditions,
// such as those of readiness gates, belong to others and stay as they are.
func ours(t corev1.PodConditionType) bool {
	switch t {
	case corev1.PodScheduled, corev1.PodReady, corev1.ContainersReady, corev1.PodInitialized, corev1.PodReadyToStartContainers,
		corev1.PodResizePending, corev1.PodResizeInProgress, corev1.AllContainersRestarting:
		return true
	}
	return false
}

// merge returns what the API server is to have, given what it has and what the node
// says. What others own stays. A phase never goes back from a terminal one, and does
// not become terminal while a container runs by the status itself: whoever sees the
// end of a pod may give its resources to another. The end of a pod and that it is not
// ready, or was disrupted, go together.
func merge(server, own *corev1.PodStatus) *corev1.PodStatus {
	out := own.DeepCopy()
	ended, ends := podstatus.IsTerminal(server.Phase), podstatus.IsTerminal(own.Phase)
	switch {
	case ended:
		out.Phase, out.Reason, out.Message = server.Phase, server.Reason, server.Message
		if ends && server.Phase == own.Phase {
			out.Reason, out.Message = own.Reason, own.Message
		}
	case ends && runs(own):
		out.Phase, out.Reason, out.Message = server.Phase, server.Reason, server.Message
		if out.Phase == "" {
			out.Phase = corev1.PodRunning
		}
	}
	out.Conditions = conditions(server, out, podstatus.IsTerminal(out.Phase))
	out.NominatedNodeName = server.NominatedNodeName
	out.ResourceClaimStatuses = server.ResourceClaimStatuses
	out.ExtendedResourceClaimStatus = server.ExtendedResourceClaimStatus
	out.NodeAllocatableResourceClaimStatuses = server.NodeAllocatableResourceClaimStatuses
	return out
}

// conditions merges the conditions: those of others, then the node's.
func conditions(server, own *corev1.PodStatus, terminal bool) []corev1.PodCondition {
	var all []corev1.PodCondition
	for _, c := range server.Conditions {
		if !ours(c.Type) {
			all = append(all, c)
		}
	}
	for _, c := range own.Conditions {
		switch {
		case c.Type == corev1.DisruptionTarget && terminal:
			all = slices.DeleteFunc(all, func(o corev1.PodCondition) bool { return o.Type == c.Type })
		case !ours(c.Type):
			continue
		case terminal && c.Status == corev1.ConditionTrue && (c.Type == corev1.PodReady || c.Type == corev1.ContainersReady):
			c.Status, c.Reason, c.Message = corev1.ConditionFalse, reasonOf(own.Phase), ""
			if before := find(server.Conditions, c.Type); before != nil && before.Status == c.Status {
				c.LastTransitionTime = before.LastTransitionTime
			}
		}
		all = append(all, c)
	}
	return all
}

// reasonOf is why a pod that has ended is not ready.
func reasonOf(p corev1.PodPhase) string {
	if p == corev1.PodSucceeded {
		return "PodCompleted"
	}
	return "PodFailed"
}

func find(list []corev1.PodCondition, t corev1.PodConditionType) *corev1.PodCondition {
	if i := slices.IndexFunc(list, func(c corev1.PodCondition) bool { return c.Type == t }); i >= 0 {
		return &list[i]
	}
	return nil
}

// runs reports whether a container runs according to a status.
func runs(s *corev1.PodStatus) bool {
	return slices.ContainsFunc(containers(s), func(c *corev1.ContainerStatus) bool { return c.State.Running != nil })
}

// containers returns all container statuses of a pod.
func containers(s *corev1.PodStatus) []*corev1.ContainerStatus {
	var all []*corev1.ContainerStatus
	for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range list {
			all = append(all, &list[i])
		}
	}
	return all
}

// isStatic reports whether a pod comes from another source than the API server, by the
// annotation that the kubelet puts on such pods. The API server has a mirror of it at
// most.
func isStatic(pod *corev1.Pod) bool {
	source, ok := pod.Annotations["kubernetes.io/config.source"]
	return ok && source != "api"
}

// isMirror reports whether an object of the API server is the mirror of a static pod
// (https://kubernetes.io/docs/tasks/configure-pod-container/static-pod/).
func isMirror(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}

// follow returns the status that a pod gets after the one it had. Its end is final: the
// phase stays, why it ended, and that its containers have.
func follow(old, next *corev1.PodStatus) *corev1.PodStatus {
	out := next.DeepCopy()
	switch {
	case !podstatus.IsTerminal(old.Phase):
		return out
	case runs(next) && !runs(old):
		return old.DeepCopy() // of another life
	}
	out.Phase = old.Phase
	if old.Reason != "" || next.Phase != old.Phase {
		out.Reason, out.Message = old.Reason, old.Message
	}
	keepEnds(old.InitContainerStatuses, out.InitContainerStatuses)
	keepEnds(old.ContainerStatuses, out.ContainerStatuses)
	keepEnds(old.EphemeralContainerStatuses, out.EphemeralContainerStatuses)
	return out
}

// keepEnds has containers that had ended stay so.
func keepEnds(old, next []corev1.ContainerStatus) {
	for i := range next {
		at := slices.IndexFunc(old, func(c corev1.ContainerStatus) bool { return c.Name == next[i].Name })
		if at >= 0 && old[at].State.Terminated != nil && next[i].State.Terminated == nil {
			next[i] = old[at]
		}
	}
}
