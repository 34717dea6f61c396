package podspec

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// seccomp returns the filter of system calls of a container. Files of profiles are in
// the directory seccomp of the agent's root
// (https://kubernetes.io/docs/tutorials/security/seccomp/).
func seccomp(p *corev1.SeccompProfile, node *Node) (*runtimeapi.SecurityProfile, error) {
	switch {
	case p == nil && node.SeccompDefault, p != nil && p.Type == corev1.SeccompProfileTypeRuntimeDefault:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}, nil
	case p == nil || p.Type == corev1.SeccompProfileTypeUnconfined:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}, nil
	case p.Type != corev1.SeccompProfileTypeLocalhost:
		return nil, fmt.Errorf("seccomp profile type %q is not known", p.Type)
	case p.LocalhostProfile == nil || *p.LocalhostProfile == "":
		return nil, errors.New("localhostProfile must be set if seccompProfile type is Localhost.") //nolint:staticcheck // the kubelet's text
	case !filepath.IsLocal(*p.LocalhostProfile):
		return nil, fmt.Errorf("seccomp profile %q leads out of the directory of profiles", *p.LocalhostProfile)
	}
	return &runtimeapi.SecurityProfile{
		ProfileType:  runtimeapi.SecurityProfile_Localhost,
		LocalhostRef: filepath.Join(or(node.Root, DefaultRoot), "seccomp", *p.LocalhostProfile),
	}, nil
}

// appArmorProfile returns what is asked for of AppArmor for a container, nil if nothing
// is: by its own field, by the annotation that was there before the fields, which names
// single containers, too, or else by the field of the pod
// (https://kubernetes.io/docs/tutorials/security/apparmor/).
func appArmorProfile(pod *corev1.Pod, c *corev1.Container) *corev1.AppArmorProfile {
	if c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
		return c.SecurityContext.AppArmorProfile
	}
	if p := annotatedAppArmor(pod, c.Name); p != nil {
		return p
	}
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.AppArmorProfile
}

// appArmor returns an AppArmor profile, and the same as a text for runtimes that know no
// other form; nil for none.
func appArmor(p *corev1.AppArmorProfile) (*runtimeapi.SecurityProfile, string, error) {
	if p == nil {
		return nil, "", nil
	}
	switch p.Type {
	case corev1.AppArmorProfileTypeRuntimeDefault:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}, "runtime/default", nil
	case corev1.AppArmorProfileTypeUnconfined:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}, "unconfined", nil
	case corev1.AppArmorProfileTypeLocalhost:
		if p.LocalhostProfile == nil || *p.LocalhostProfile == "" {
			return nil, "", errors.New("missing localhost apparmor profile name")
		}
		return &runtimeapi.SecurityProfile{
			ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: *p.LocalhostProfile,
		}, localhostPrefix + *p.LocalhostProfile, nil
	}
	return nil, "", fmt.Errorf("unknown apparmor profile type: %q", p.Type)
}

// localhostPrefix goes before the name of a profile in annotations.
const localhostPrefix = "localhost/"

// annotatedAppArmor returns the profile an annotation names for a container, nil if
// there is none.
func annotatedAppArmor(pod *corev1.Pod, name string) *corev1.AppArmorProfile {
	value := pod.Annotations[appArmorPrefix+name]
	switch value {
	case "":
		return nil
	case "runtime/default":
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	case "unconfined":
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	}
	profile, ok := strings.CutPrefix(value, localhostPrefix)
	if !ok {
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileType(value)} // refused by its type
	}
	return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &profile}
}

func selinux(o *corev1.SELinuxOptions) *runtimeapi.SELinuxOption {
	if o == nil {
		return nil
	}
	return &runtimeapi.SELinuxOption{User: o.User, Role: o.Role, Type: o.Type, Level: o.Level}
}
