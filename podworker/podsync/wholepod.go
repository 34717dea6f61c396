package podsync

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

// wholeOf returns what a pod as a whole asks for of what can change under it, nil if it
// asks for nothing.
func wholeOf(pod *corev1.Pod) *corev1.ResourceRequirements {
	r := pod.Spec.Resources
	if r == nil || len(r.Requests)+len(r.Limits) == 0 {
		return nil
	}
	return r
}

// withWhole sets what a pod as a whole asks for, and returns the pod.
func withWhole(pod *corev1.Pod, whole *corev1.ResourceRequirements) *corev1.Pod {
	pod.Spec.Resources = whole.DeepCopy()
	return pod
}

// orNone replaces nil by no resources.
func orNone(r *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	if r == nil {
		return &corev1.ResourceRequirements{}
	}
	return r
}

func sameWhole(a, b *corev1.ResourceRequirements) bool { return sameResources(orNone(a), orNone(b)) }

// effective returns what a container is held to: where it has no limit of CPU or memory,
// that of the pod as a whole is also its own.
func effective(whole, own *corev1.ResourceRequirements) corev1.ResourceRequirements {
	if whole == nil {
		return *own
	}
	out := *own.DeepCopy()
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		limit := whole.Limits[name]
		if has := out.Limits[name]; limit.IsZero() || !has.IsZero() {
			continue
		}
		if out.Limits == nil {
			out.Limits = corev1.ResourceList{}
		}
		out.Limits[name] = limit
	}
	return out
}

// messageSwap is the kubelet's.
const messageSwap = "In-place resize of containers with swap is not supported."

// swapChanges reports whether a container that runs on would have to be given another
// part of the node's swap space: that part follows from its memory request, and a runtime
// does not take back what has been swapped already.
func swapChanges(pod, has *corev1.Pod, node *podspec.Node) bool {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			c := &list[i]
			old := container(has, c.Name)
			if old == nil || sameQuantity(corev1.ResourceMemory, c.Resources.Requests, old.Resources.Requests) {
				continue
			}
			if !restartsForMemory(old) && (podspec.MaySwap(pod, c, node) || podspec.MaySwap(has, old, node)) {
				return true
			}
		}
	}
	return false
}

// restartsForMemory reports whether a container is restarted when its memory changes.
func restartsForMemory(c *corev1.Container) bool {
	return slices.ContainsFunc(c.ResizePolicy, func(p corev1.ContainerResizePolicy) bool {
		return p.ResourceName == corev1.ResourceMemory && p.RestartPolicy == corev1.RestartContainer
	})
}
