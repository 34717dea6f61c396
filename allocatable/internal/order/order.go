// Package order tells in which order the containers of a pod start, and which of them
// are gone by then: those may leave to others what they had.
package order

import corev1 "k8s.io/api/core/v1"

// Step is a container in the order in which a pod starts them.
type Step struct {
	*corev1.Container
	// Ends is true if it has ended before the next one starts.
	Ends bool
}

// Of returns the init containers and then the containers of a pod. Ephemeral containers,
// which start at any time, are none of them.
func Of(pod *corev1.Pod) []Step {
	out := make([]Step, 0, len(pod.Spec.InitContainers)+len(pod.Spec.Containers))
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		sidecar := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		out = append(out, Step{Container: c, Ends: !sidecar})
	}
	for i := range pod.Spec.Containers {
		out = append(out, Step{Container: &pod.Spec.Containers[i]})
	}
	return out
}
