package podspec

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maskedPaths are hidden from containers, readonlyPaths are not writable for them
// (https://kubernetes.io/docs/concepts/security/linux-kernel-security-constraints/
// and the default OCI spec of runtimes).
//
//nolint:gochecknoglobals // constant tables
var (
	maskedPaths = []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
		"/sys/devices/virtual/powercap",
	}
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// User is the user an image asks to run as.
type User struct {
	// UID is nil if the image names no numeric user.
	UID *int64
	// Name is set if the image names a user by name.
	Name string
}

func sandboxSecurity(pod *corev1.Pod, grant *Grant) *runtimeapi.LinuxSandboxSecurityContext {
	sc := &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions: namespaces(pod, grant),
		Privileged:       hasPrivileged(pod),
		Seccomp:          &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
	}
	if p := pod.Spec.SecurityContext; p != nil {
		sc.RunAsUser = int64Value(p.RunAsUser)
		sc.RunAsGroup = int64Value(p.RunAsGroup)
		sc.SelinuxOptions = selinux(p.SELinuxOptions)
	}
	sc.SupplementalGroups, sc.SupplementalGroupsPolicy = groups(pod, grant)
	return sc
}

// groups returns the groups of every process of the pod, and whether those the image
// gives its users count, too.
func groups(pod *corev1.Pod, grant *Grant) ([]int64, runtimeapi.SupplementalGroupsPolicy) {
	var out []int64
	policy := runtimeapi.SupplementalGroupsPolicy_Merge
	p := pod.Spec.SecurityContext
	if p == nil {
		return slices.Clone(grant.Groups), policy
	}
	if p.FSGroup != nil {
		out = append(out, *p.FSGroup)
	}
	for _, g := range slices.Concat(grant.Groups, p.SupplementalGroups) {
		if !slices.Contains(out, g) {
			out = append(out, g)
		}
	}
	if p.SupplementalGroupsPolicy != nil && *p.SupplementalGroupsPolicy == corev1.SupplementalGroupsPolicyStrict {
		policy = runtimeapi.SupplementalGroupsPolicy_Strict
	}
	return out, policy
}

// hasPrivileged reports whether any container of the pod is privileged.
func hasPrivileged(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, isPrivileged) || slices.ContainsFunc(pod.Spec.Containers, isPrivileged)
}

func isPrivileged(c corev1.Container) bool {
	return c.SecurityContext != nil && isTrue(c.SecurityContext.Privileged)
}

func isTrue(b *bool) bool { return b != nil && *b }

func int64Value(v *int64) *runtimeapi.Int64Value {
	if v == nil {
		return nil
	}
	return &runtimeapi.Int64Value{Value: *v}
}

func namespaces(pod *corev1.Pod, grant *Grant) *runtimeapi.NamespaceOption {
	n := &runtimeapi.NamespaceOption{
		Network:       runtimeapi.NamespaceMode_POD,
		Ipc:           runtimeapi.NamespaceMode_POD,
		Pid:           runtimeapi.NamespaceMode_CONTAINER,
		UsernsOptions: grant.Users.option(),
	}
	if pod.Spec.HostNetwork {
		n.Network = runtimeapi.NamespaceMode_NODE
	}
	if pod.Spec.HostIPC {
		n.Ipc = runtimeapi.NamespaceMode_NODE
	}
	switch {
	case pod.Spec.HostPID:
		n.Pid = runtimeapi.NamespaceMode_NODE
	case isTrue(pod.Spec.ShareProcessNamespace):
		n.Pid = runtimeapi.NamespaceMode_POD
	}
	return n
}

// effective is the security context of a container, its own values over the
// pod's. Of AppArmor it has the container's own alone, see appArmorProfile.
func effective(pod *corev1.Pod, c *corev1.Container) corev1.SecurityContext {
	var sc corev1.SecurityContext
	if c.SecurityContext != nil {
		sc = *c.SecurityContext
	}
	p := pod.Spec.SecurityContext
	if p == nil {
		return sc
	}
	if sc.RunAsUser == nil {
		sc.RunAsUser = p.RunAsUser
	}
	if sc.RunAsGroup == nil {
		sc.RunAsGroup = p.RunAsGroup
	}
	if sc.RunAsNonRoot == nil {
		sc.RunAsNonRoot = p.RunAsNonRoot
	}
	if sc.SeccompProfile == nil {
		sc.SeccompProfile = p.SeccompProfile
	}
	if sc.SELinuxOptions == nil {
		sc.SELinuxOptions = p.SELinuxOptions
	}
	return sc
}

func containerSecurity(pod *corev1.Pod, c *corev1.Container, node *Node, run *Run) (*runtimeapi.LinuxContainerSecurityContext, error) {
	sc := effective(pod, c)
	if err := checkNonRoot(&sc, run.ImageUser); err != nil {
		return nil, err
	}
	profile, err := seccomp(sc.SeccompProfile, node)
	if err != nil {
		return nil, err
	}
	out := &runtimeapi.LinuxContainerSecurityContext{
		NamespaceOptions: namespaces(pod, &run.Grant),
		Privileged:       isTrue(sc.Privileged),
		ReadonlyRootfs:   isTrue(sc.ReadOnlyRootFilesystem),
		NoNewPrivs:       sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation,
		RunAsUser:        int64Value(sc.RunAsUser),
		RunAsGroup:       int64Value(sc.RunAsGroup),
		SelinuxOptions:   selinux(sc.SELinuxOptions),
		Seccomp:          profile,
	}
	//nolint:staticcheck // the text is for runtimes that know no other form
	if out.Apparmor, out.ApparmorProfile, err = appArmor(appArmorProfile(pod, c)); err != nil {
		return nil, err
	}
	if sc.ProcMount == nil || *sc.ProcMount != corev1.UnmaskedProcMount {
		out.MaskedPaths = slices.Concat(maskedPaths, node.Masked)
		out.ReadonlyPaths = slices.Clone(readonlyPaths)
	}
	if sc.Capabilities != nil {
		out.Capabilities = &runtimeapi.Capability{
			AddCapabilities:  capabilities(sc.Capabilities.Add),
			DropCapabilities: capabilities(sc.Capabilities.Drop),
		}
	}
	if run.Target != "" && out.NamespaceOptions.Pid == runtimeapi.NamespaceMode_CONTAINER {
		out.NamespaceOptions.Pid, out.NamespaceOptions.TargetId = runtimeapi.NamespaceMode_TARGET, run.Target
	}
	out.SupplementalGroups, out.SupplementalGroupsPolicy = groups(pod, &run.Grant)
	setUser(out, run.ImageUser)
	return out, nil
}

// setUser takes the user of the image where the pod names none. A group needs a
// user beside it.
func setUser(out *runtimeapi.LinuxContainerSecurityContext, image User) {
	switch {
	case out.RunAsUser != nil:
	case image.UID != nil:
		out.RunAsUser = int64Value(image.UID)
	case image.Name != "":
		out.RunAsUsername = image.Name
	default:
		out.RunAsUser = &runtimeapi.Int64Value{}
	}
}

// checkNonRoot refuses a container that has to run as another user than root but
// would not, or might not.
func checkNonRoot(sc *corev1.SecurityContext, image User) error {
	switch {
	case !isTrue(sc.RunAsNonRoot):
		return nil
	case sc.RunAsUser != nil:
		if *sc.RunAsUser == 0 {
			return errors.New("container's runAsUser breaks non-root policy")
		}
		return nil
	case image.UID != nil:
		if *image.UID == 0 {
			return errors.New("container has runAsNonRoot and image will run as root")
		}
		return nil
	case image.Name != "":
		return fmt.Errorf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root", image.Name)
	}
	return errors.New("container has runAsNonRoot and image will run as root")
}

func capabilities(list []corev1.Capability) []string {
	var out []string
	for _, c := range list {
		out = append(out, string(c))
	}
	return out
}
