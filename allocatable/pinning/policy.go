package pinning

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Policy says whether containers get CPUs, or memory, of their own.
type Policy uint8

// The policies.
const (
	// None: all containers share all CPUs and all memory.
	None Policy = iota
	// Static: those of Guaranteed pods get what they ask for to themselves.
	Static
)

// String returns "none" or "static", as the field cpuManagerPolicy has them; the field
// memoryManagerPolicy begins with a capital.
func (p Policy) String() string {
	switch p {
	case None:
		return "none"
	case Static:
		return "static"
	}
	return fmt.Sprintf("policy %d", uint8(p))
}

// capital is String with a capital.
func (p Policy) capital() string {
	if p == Static {
		return "Static"
	}
	return "None"
}

// ParseCPUPolicy reads the field cpuManagerPolicy of a KubeletConfiguration; an empty one
// is [None].
func ParseCPUPolicy(name string) (Policy, error) {
	switch name {
	case "", None.String():
		return None, nil
	case Static.String():
		return Static, nil
	}
	return None, fmt.Errorf("CPU manager policy %q: want none or static", name)
}

// ParseMemoryPolicy reads the field memoryManagerPolicy of a KubeletConfiguration; an empty
// one is [None].
func ParseMemoryPolicy(name string) (Policy, error) {
	switch name {
	case "", None.capital():
		return None, nil
	case Static.capital():
		return Static, nil
	}
	return None, fmt.Errorf("memory manager policy %q: want None or Static", name)
}

// ClassOf returns the quality of service of a pod.
type ClassOf func(pod *corev1.Pod) corev1.PodQOSClass
