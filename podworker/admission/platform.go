package admission

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// checkPlatform compares the system and the runtime with what the pod is made for.
func checkPlatform(pod *corev1.Pod, node *corev1.Node) Decision {
	system := node.Status.NodeInfo.OperatingSystem
	if label, ok := pod.Labels[corev1.LabelOSStable]; ok && label != system {
		return refuse(Never, ReasonOSLabel, "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label")
	}
	if pod.Spec.OS != nil && string(pod.Spec.OS.Name) != system {
		return refuse(Never, ReasonOS, "Failed to admit pod as the OS field doesn't match node OS")
	}
	if strictGroups(pod) && !supportsStrictGroups(node) {
		return refuse(Never, ReasonGroups, "SupplementalGroupsPolicy=%s is not supported in this node", corev1.SupplementalGroupsPolicyStrict)
	}
	return admit()
}

func strictGroups(pod *corev1.Pod) bool {
	sc := pod.Spec.SecurityContext
	return sc != nil && sc.SupplementalGroupsPolicy != nil && *sc.SupplementalGroupsPolicy == corev1.SupplementalGroupsPolicyStrict
}

func supportsStrictGroups(node *corev1.Node) bool {
	f := node.Status.Features
	return f != nil && f.SupplementalGroupsPolicy != nil && *f.SupplementalGroupsPolicy
}

// checkFeatures compares the declared features with those the pod needs
// (https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/5328-node-declared-features).
func checkFeatures(pod *corev1.Pod, node Node) Decision {
	if node.Requires == nil {
		return admit()
	}
	missing := slices.DeleteFunc(slices.Clone(node.Requires(pod)), func(feature string) bool {
		return slices.Contains(node.Node.Status.DeclaredFeatures, feature)
	})
	if len(missing) > 0 {
		return refuse(Never, ReasonFeature, "Pod requires node features that are not available: %s", strings.Join(missing, ", "))
	}
	return admit()
}

// appArmorAnnotation is the old way of asking for a profile, by container
// (https://kubernetes.io/docs/tutorials/security/apparmor).
const appArmorAnnotation = "container.apparmor.security.beta.kubernetes.io/"

// checkAppArmor refuses pods that would run without the confinement they ask for.
func checkAppArmor(pod *corev1.Pod, enabled bool) Decision {
	if !enabled && wantsAppArmor(pod) {
		return refuse(Never, ReasonAppArmor, messageAppArmorMissing)
	}
	return admit()
}

func wantsAppArmor(pod *corev1.Pod) bool {
	for key, profile := range pod.Annotations {
		if strings.HasPrefix(key, appArmorAnnotation) && profile != "" && profile != "unconfined" {
			return true
		}
	}
	confined := func(p *corev1.AppArmorProfile) bool {
		return p != nil && p.Type != corev1.AppArmorProfileTypeUnconfined
	}
	if sc := pod.Spec.SecurityContext; sc != nil && confined(sc.AppArmorProfile) {
		return true
	}
	for c := range containers(pod) {
		if sc := c.SecurityContext; sc != nil && confined(sc.AppArmorProfile) {
			return true
		}
	}
	return false
}
