package node

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker"
	"github.com/nodekit-go/nodekit/podworker/admission"
)

// reasonAttachLimit is the kubelet's word for a pod whose volume finds no place at the node.
const reasonAttachLimit = "VolumeAttachmentLimitExceeded"

// noPlace fails a pod whose volumes cannot be attached for want of a place, so that its
// controller makes another one, which finds a node that has some.
func (a *agent) noPlace(pod *corev1.Pod, why error) {
	d := admission.Decision{Reason: reasonAttachLimit, Message: "Node has reached its volume attachment limit, rejecting pod. " + why.Error()}
	a.log.Warn("pod is refused", "pod", fullName(pod), "uid", string(pod.UID), "reason", d.Reason, "message", d.Message)
	a.metrics.tally.rejected.WithLabelValues(d.Reason).Inc()
	a.refused(pod, d)
	a.pool.Terminate(pod.UID, podworker.Termination{Phase: corev1.PodFailed, Reason: d.Reason, Message: "Pod was rejected: " + d.Message})
}
