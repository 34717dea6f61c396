package node

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/staticpods"
)

// sinceSeen returns a pod of a manifest with the start time that the API gives the field:
// when this kubelet acknowledged the pod. Without an API server nobody remembers what an
// earlier process said, and the stock kubelet begins anew as well (updateStatusInternal in
// pkg/kubelet/status of Kubernetes). Only what is shown changes: a deadline counts from the
// first sandbox of the pod, whoever made it.
func sinceSeen(pod *corev1.Pod) *corev1.Pod {
	seen, err := time.Parse(time.RFC3339Nano, pod.Annotations[staticpods.AnnotationSeen])
	if err != nil || pod.Status.StartTime == nil {
		return pod
	}
	since := metav1.NewTime(seen.Truncate(time.Second))
	if !pod.Status.StartTime.Before(&since) {
		return pod
	}
	status := pod.Status
	status.StartTime = &since
	return withStatus(pod, status)
}
