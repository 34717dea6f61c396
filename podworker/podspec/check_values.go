package podspec

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// special looks at honoured types of which only some values are honoured, and
// returns why this one is not.
func (c *checker) special(path string, v reflect.Value) string {
	if why := enum(v) + securityEnum(v); why != "" {
		return why
	}
	can := c.opt.Can
	switch x := v.Interface().(type) {
	case corev1.SupplementalGroupsPolicy:
		return oneOf(x, with(can, StrictGroups, corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict)...)
	case corev1.ProcMountType:
		return oneOf(x, with(can, UserNamespaces, corev1.DefaultProcMount, corev1.UnmaskedProcMount)...)
	case corev1.StorageMedium:
		if !strings.HasPrefix(string(x), string(corev1.StorageMediumHugePagesPrefix)) {
			return oneOf(x, corev1.StorageMediumDefault, corev1.StorageMediumMemory, corev1.StorageMediumHugePages)
		}
	case corev1.EmptyDirVolumeSource:
		if x.SizeLimit != nil && x.Medium == corev1.StorageMediumDefault && !can.Has(LocalStorage) {
			return "the size of a volume on disk is not limited"
		}
	case corev1.ResourceRequirements:
		return resources(&x, can)
	case corev1.AppArmorProfile:
		if x.Type != corev1.AppArmorProfileTypeUnconfined && !can.Has(AppArmor) { // no profile is what such a node has anyway
			return noAppArmor
		}
	}
	return restricted(path, v)
}

// restricted looks at what may be referred to, and at what hooks share with probes, which
// have more choices.
func restricted(path string, v reflect.Value) string {
	switch x := v.Interface().(type) {
	case corev1.ObjectFieldSelector:
		return fieldRef(x, strings.HasPrefix(path, "spec.volumes"))
	case corev1.ResourceFieldSelector:
		return resourceRef(x)
	case corev1.LifecycleHandler:
		if x.HTTPGet != nil && x.HTTPGet.Protocol != nil {
			return "httpGet.protocol: a hook has no choice of the HTTP version"
		}
	}
	return ""
}

// enum looks at the types whose values do not depend on what the agent can do.
func enum(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case corev1.RestartPolicy:
		return oneOf(x, corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	case corev1.ContainerRestartPolicy:
		return oneOf(x, corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyOnFailure, corev1.ContainerRestartPolicyNever)
	case corev1.ContainerRestartRuleAction:
		return oneOf(x, corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers)
	case corev1.ContainerRestartRuleOnExitCodesOperator:
		return oneOf(x, corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)
	case corev1.DNSPolicy:
		return oneOf(x, corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet, corev1.DNSDefault, corev1.DNSNone)
	case corev1.PullPolicy:
		return oneOf(x, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
	case corev1.TerminationMessagePolicy:
		return oneOf(x, corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)
	case corev1.OSName:
		return oneOf(x, corev1.Linux)
	case corev1.HTTPProtocol:
		return oneOf(x, corev1.HTTPProtocolHTTP1, corev1.HTTPProtocolHTTP2)
	case corev1.GRPCProbeMode:
		return oneOf(x, corev1.GRPCProbeModePlaintext, corev1.GRPCProbeModeTLS)
	case corev1.Protocol:
		return oneOf(x, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)
	case corev1.Signal:
		if _, known := stopSignal(&x); !known {
			return fmt.Sprintf("signal %q is not known", string(x))
		}
	}
	return ""
}

// securityEnum is enum for profiles and mounts.
func securityEnum(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case corev1.SeccompProfileType:
		return oneOf(x, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined, corev1.SeccompProfileTypeLocalhost)
	case corev1.AppArmorProfileType:
		return oneOf(x, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined, corev1.AppArmorProfileTypeLocalhost)
	case corev1.RecursiveReadOnlyMode:
		return oneOf(x, corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyIfPossible, corev1.RecursiveReadOnlyEnabled)
	case corev1.MountPropagationMode:
		return oneOf(x, corev1.MountPropagationNone, corev1.MountPropagationHostToContainer, corev1.MountPropagationBidirectional)
	}
	return ""
}

func oneOf[T ~string](got T, want ...T) string {
	if slices.Contains(want, got) {
		return ""
	}
	return fmt.Sprintf("%q is not supported, only %q", string(got), want)
}

// with returns the values an agent honours: one always, another with an ability.
func with[T any](can, needed Ability, always, more T) []T {
	if can.Has(needed) {
		return []T{always, more}
	}
	return []T{always}
}

// resources refuses resources that would be promised but not enforced. A request for
// local storage is the scheduler's alone; its limit has to be enforced.
func resources(r *corev1.ResourceRequirements, can Ability) string {
	for _, list := range []corev1.ResourceList{r.Limits, r.Requests} {
		for name := range list {
			switch {
			case name == corev1.ResourceCPU, name == corev1.ResourceMemory, isHugePages(name):
			case name == corev1.ResourceEphemeralStorage:
				if _, limited := r.Limits[name]; limited && !can.Has(LocalStorage) {
					return "a limit of ephemeral-storage is not enforced"
				}
			case !can.Has(Devices):
				return fmt.Sprintf("resource %s is not handed out", name)
			}
		}
	}
	return ""
}

// isHugePages reports whether a resource is huge pages of one size, such as
// hugepages-2Mi.
func isHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}
