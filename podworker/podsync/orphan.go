package podsync

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

// annotationOrphan marks a pod made by Orphan.
const annotationOrphan = "io.nodekit.orphan"

// Owner returns the id of the agent that made a sandbox, empty if it was none of
// this project's.
func Owner(sandbox *runtimeapi.PodSandbox) string {
	return sandbox.GetAnnotations()[podspec.AnnotationInstance]
}

// Orphan returns a pod of which only the runtime knows, as far as the labels of a
// sandbox tell: enough to terminate it, with a grace period of one second. It is
// false for a sandbox that names no pod. A Syncer stops such a pod only if this
// agent made its sandboxes, see [Config.TakeOver].
func Orphan(sandbox *runtimeapi.PodSandbox) (*corev1.Pod, bool) {
	labels := sandbox.GetLabels()
	uid := types.UID(labels[podspec.LabelPodUID])
	if uid == "" || labels[podspec.LabelPodName] == "" {
		return nil, false
	}
	pod := &corev1.Pod{}
	pod.UID = uid
	pod.Name = labels[podspec.LabelPodName]
	pod.Namespace = labels[podspec.LabelPodNamespace]
	pod.Annotations = map[string]string{annotationOrphan: "true"}
	if source, ok := sandbox.GetAnnotations()["kubernetes.io/config.source"]; ok {
		pod.Annotations["kubernetes.io/config.source"] = source
	}
	seconds := int64(orphanGrace.Seconds())
	pod.Spec.TerminationGracePeriodSeconds = &seconds
	return pod, true
}

func isOrphan(pod *corev1.Pod) bool { return pod.Annotations[annotationOrphan] != "" }
