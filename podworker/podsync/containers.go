package podsync

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// Kind is what a container is to its pod.
type Kind uint8

// The kinds of containers.
const (
	// Regular containers are what the pod is for.
	Regular Kind = iota
	// Init containers run one after the other before the regular ones, to their end.
	Init
	// Sidecar containers are init containers that stay, next to the regular ones.
	Sidecar
	// Ephemeral containers were added to a running pod, to look into it.
	Ephemeral
)

// String returns what the kind is called before the name of a container.
func (k Kind) String() string {
	switch k {
	case Regular:
		return "container"
	case Init:
		return "init container"
	case Sidecar:
		return "sidecar"
	case Ephemeral:
		return "ephemeral container"
	}
	return "invalid kind"
}

// container returns a container of the pod of any kind, nil if there is none of this
// name.
func container(pod *corev1.Pod, name string) *corev1.Container {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return &pod.Spec.Containers[i]
		}
	}
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == name {
			return &pod.Spec.InitContainers[i]
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == name {
			return (*corev1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		}
	}
	return nil
}

// kindOf returns the kind of a container of the pod. Names that are not in its spec
// count as regular.
func kindOf(pod *corev1.Pod, name string) Kind {
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.Name == name {
			if podstatus.IsSidecar(c) {
				return Sidecar
			}
			return Init
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == name {
			return Ephemeral
		}
	}
	return Regular
}

func isRegular(pod *corev1.Pod, name string) bool {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return true
		}
	}
	return false
}
