package podsource

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// The annotations by which an agent remembers where a pod is from. They are the kubelet's,
// and reach the runtime with the others.
const (
	// AnnotationSource names the source: [API], "file" or "http".
	AnnotationSource = "kubernetes.io/config.source"
	// AnnotationSeen is when the pod was first seen, in RFC 3339 with nanoseconds.
	AnnotationSeen = "kubernetes.io/config.seen"
)

// API is the kubelet's name of the API server as a source.
const API = "api"

// stamp returns a copy of a pod with the annotations of the API server's pods, and without
// the record of who wrote which field.
func stamp(pod *corev1.Pod, seen string) *corev1.Pod {
	out := *pod
	out.ManagedFields = nil
	out.Annotations = maps.Clone(pod.Annotations)
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	out.Annotations[AnnotationSource] = API
	out.Annotations[AnnotationSeen] = seen
	return &out
}

// IsMirror reports whether an object of the API server is the picture of a static pod,
// which runs from another source.
func IsMirror(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}

// IsStatic reports whether a pod is from another source than the API server.
func IsStatic(pod *corev1.Pod) bool {
	source := pod.Annotations[AnnotationSource]
	return source != "" && source != API
}
