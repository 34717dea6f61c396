package podspec

import (
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// special looks at honoured types of which only some values are honoured, and
// returns why this one is not.
func (c *checker) special(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case corev1.RestartPolicy:
		return oneOf(x, corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	case corev1.DNSPolicy:
		return oneOf(x, corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet, corev1.DNSDefault, corev1.DNSNone)
	case corev1.PullPolicy:
		return oneOf(x, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
	case corev1.TerminationMessagePolicy:
		return oneOf(x, corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)
	case corev1.OSName:
		return oneOf(x, corev1.Linux)
	case corev1.SeccompProfileType:
		return oneOf(x, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined)
	case corev1.SupplementalGroupsPolicy:
		return oneOf(x, corev1.SupplementalGroupsPolicyMerge)
	case corev1.ProcMountType:
		return oneOf(x, corev1.DefaultProcMount)
	case corev1.StorageMedium:
		return oneOf(x, corev1.StorageMediumDefault)
	case corev1.RecursiveReadOnlyMode:
		return oneOf(x, corev1.RecursiveReadOnlyDisabled)
	case corev1.Protocol:
		return oneOf(x, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)
	case corev1.MountPropagationMode:
		return oneOf(x, corev1.MountPropagationNone, corev1.MountPropagationHostToContainer, corev1.MountPropagationBidirectional)
	case corev1.ResourceList:
		return resources(x)
	case corev1.ObjectFieldSelector:
		return fieldRef(x)
	}
	return ""
}

func oneOf[T ~string](got T, want ...T) string {
	if slices.Contains(want, got) {
		return ""
	}
	return fmt.Sprintf("%q is not supported, only %q", string(got), want)
}

// resources refuses resources that would be promised but not enforced.
func resources(list corev1.ResourceList) string {
	for name := range list {
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
			return fmt.Sprintf("resource %s is not enforced, only cpu and memory are", name)
		}
	}
	return ""
}
