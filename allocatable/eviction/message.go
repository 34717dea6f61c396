package eviction

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The annotations of an event that tells of an eviction, as the kubelet sets them.
const (
	AnnotationStarvedResource          = "starved_resource"
	AnnotationOffendingPod             = "offending_pod"
	AnnotationOffendingPodUsage        = "offending_pod_usage"
	AnnotationOffendingContainers      = "offending_containers"
	AnnotationOffendingContainersUsage = "offending_containers_usage"
)

// Message words why a pod is evicted for a threshold, with the kubelet's text: what is
// short, how much is left of how much, and which containers use more than they asked for.
// The annotations are for the event. Of a pod that was not measured, usage is nil.
func Message(t Threshold, o Observation, pod *corev1.Pod, usage *Usage) (message string, annotations map[string]string) {
	name := t.Signal.Resource()
	want := t.Value.Of(o.Capacity)
	available := o.Available
	var b strings.Builder
	fmt.Fprintf(&b, "The node was low on resource: %s. Threshold quantity: %s, available: %s. ", name, &want, &available)
	annotations = map[string]string{AnnotationStarvedResource: string(name)}
	if usage == nil {
		return b.String(), annotations
	}
	if asked, ok := podRequest(pod, name); ok && name == corev1.ResourceMemory {
		used := bytes(usage.Memory)
		fmt.Fprintf(&b, "Pod %s was using %s, request is %s, has larger consumption of %s. ", pod.Name, &used, &asked, name)
		annotations[AnnotationOffendingPod], annotations[AnnotationOffendingPodUsage] = pod.Name, used.String()
	}
	var names, amounts []string
	for _, c := range usage.Containers {
		asked, known := containerRequest(pod, c.Name, name)
		used, counted := c.use(name)
		if !known || !counted || used.Cmp(asked) <= 0 {
			continue
		}
		fmt.Fprintf(&b, "Container %s was using %s, request is %s, has larger consumption of %s. ", c.Name, &used, &asked, name)
		names, amounts = append(names, c.Name), append(amounts, used.String())
	}
	annotations[AnnotationOffendingContainers] = strings.Join(names, ",")
	annotations[AnnotationOffendingContainersUsage] = strings.Join(amounts, ",")
	return b.String(), annotations
}

// use is what a container uses of a resource that containers ask for.
func (c ContainerUsage) use(name corev1.ResourceName) (resource.Quantity, bool) {
	switch name {
	case corev1.ResourceMemory:
		return bytes(c.Memory), true
	case corev1.ResourceEphemeralStorage:
		return bytes(c.Rootfs.Bytes + c.Logs.Bytes), true
	default:
		return resource.Quantity{}, false
	}
}

// podRequest is what a pod asks for as a whole, if it does.
func podRequest(pod *corev1.Pod, name corev1.ResourceName) (resource.Quantity, bool) {
	if pod.Spec.Resources == nil {
		return resource.Quantity{}, false
	}
	asked, ok := pod.Spec.Resources.Requests[name]
	return asked, ok
}

// containerRequest is what a container or an init container asks for; false for a
// name that is neither.
func containerRequest(pod *corev1.Pod, container string, name corev1.ResourceName) (resource.Quantity, bool) {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		if i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == container }); i >= 0 {
			return list[i].Resources.Requests[name], true
		}
	}
	return resource.Quantity{}, false
}
