package staticpods

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Limits of the API: of an object's annotations together
// (https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations)
// and of a pod's resolv.conf
// (https://kubernetes.io/docs/concepts/services-networking/dns-pod-service).
const (
	maxAnnotationBytes = 256 << 10
	maxNameservers     = 3
	maxSearches        = 32
	maxSearchBytes     = 2048
	maxUIDBytes        = 128
	maxInt32           = 1<<31 - 1
)

// validatePod checks a static pod, defaults and all, against the rules for
// creating a Pod that a runtime would otherwise trip over.
func validatePod(f *findings, pod *corev1.Pod) {
	validateMeta(f, pod)
	s := &pod.Spec
	validateVolumes(f, s.Volumes)
	validateContainers(f, s)
	validatePolicies(f, s)
	validateDNS(f, s)
	validateHost(f, s)
	validateTolerations(f, s.Tolerations)
	validatePodSecurity(f, s)
	if len(s.EphemeralContainers) > 0 {
		f.add("spec.ephemeralContainers", "cannot be set on a pod that is created")
	}
	if len(s.SchedulingGates) > 0 {
		f.add("spec.schedulingGates", "cannot hold a pod that has its node")
	}
}

func validateMeta(f *findings, pod *corev1.Pod) {
	f.addAll("metadata.name", validation.IsDNS1123Subdomain(pod.Name))
	f.addAll("metadata.namespace", validation.IsDNS1123Label(pod.Namespace))
	if !isPathSegment(string(pod.UID)) {
		f.add("metadata.uid", "must be letters, digits, '-', '_' and '.', %d at most: it names directories", maxUIDBytes)
	}
	for k, v := range pod.Labels {
		f.addAll("metadata.labels["+k+"]", validation.IsQualifiedName(k))
		f.addAll("metadata.labels["+k+"]", validation.IsValidLabelValue(v))
	}
	size := 0
	for k, v := range pod.Annotations {
		f.addAll("metadata.annotations["+k+"]", validation.IsQualifiedName(strings.ToLower(k)))
		size += len(k) + len(v)
	}
	if size > maxAnnotationBytes {
		f.add("metadata.annotations", "are %d bytes together, at most %d are allowed", size, maxAnnotationBytes)
	}
}

// isPathSegment says whether s can be the name of a directory.
func isPathSegment(s string) bool {
	if s == "" || s == "." || s == ".." || len(s) > maxUIDBytes {
		return false
	}
	for _, r := range s {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.", r) {
			return false
		}
	}
	return true
}

func validatePolicies(f *findings, s *corev1.PodSpec) {
	oneOf(f, "spec.restartPolicy", s.RestartPolicy,
		corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	oneOf(f, "spec.dnsPolicy", s.DNSPolicy,
		corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet, corev1.DNSDefault, corev1.DNSNone)
	if s.PreemptionPolicy != nil {
		oneOf(f, "spec.preemptionPolicy", *s.PreemptionPolicy, corev1.PreemptLowerPriority, corev1.PreemptNever)
	}
	if s.OS != nil {
		oneOf(f, "spec.os.name", s.OS.Name, corev1.Linux, corev1.Windows)
	}
	if g := s.TerminationGracePeriodSeconds; g != nil && *g < 0 {
		f.add("spec.terminationGracePeriodSeconds", "is %d, must not be negative", *g)
	}
	if d := s.ActiveDeadlineSeconds; d != nil && (*d < 1 || *d > maxInt32) {
		f.add("spec.activeDeadlineSeconds", "is %d, must be between 1 and %d", *d, maxInt32)
	}
	if s.RuntimeClassName != nil {
		f.addAll("spec.runtimeClassName", validation.IsDNS1123Subdomain(*s.RuntimeClassName))
	}
	if s.PriorityClassName != "" {
		f.addAll("spec.priorityClassName", validation.IsDNS1123Subdomain(s.PriorityClassName))
	}
	for k, v := range s.NodeSelector {
		f.addAll("spec.nodeSelector["+k+"]", validation.IsQualifiedName(k))
		f.addAll("spec.nodeSelector["+k+"]", validation.IsValidLabelValue(v))
	}
	for i, g := range s.ReadinessGates {
		f.addAll(at("spec.readinessGates", i)+".conditionType", validation.IsQualifiedName(string(g.ConditionType)))
	}
}

func validateDNS(f *findings, s *corev1.PodSpec) {
	c := s.DNSConfig
	if c == nil {
		if s.DNSPolicy == corev1.DNSNone {
			f.add("spec.dnsConfig", "required with dnsPolicy None")
		}
		return
	}
	if s.DNSPolicy == corev1.DNSNone && len(c.Nameservers) == 0 {
		f.add("spec.dnsConfig.nameservers", "required with dnsPolicy None")
	}
	if len(c.Nameservers) > maxNameservers {
		f.add("spec.dnsConfig.nameservers", "has %d entries, at most %d are allowed", len(c.Nameservers), maxNameservers)
	}
	for i, ns := range c.Nameservers {
		validateIP(f, at("spec.dnsConfig.nameservers", i), ns)
	}
	if len(c.Searches) > maxSearches || len(strings.Join(c.Searches, " ")) > maxSearchBytes {
		f.add("spec.dnsConfig.searches", "is too long: at most %d domains of %d bytes together", maxSearches, maxSearchBytes)
	}
	for i, domain := range c.Searches {
		if domain == "." {
			continue
		}
		f.addAll(at("spec.dnsConfig.searches", i), validation.IsDNS1123Subdomain(strings.TrimSuffix(strings.ReplaceAll(domain, "_", "-"), ".")))
	}
	for i, o := range c.Options {
		if o.Name == "" {
			f.add(at("spec.dnsConfig.options", i)+".name", "required")
		}
	}
}

func validateHost(f *findings, s *corev1.PodSpec) {
	if s.Hostname != "" {
		f.addAll("spec.hostname", validation.IsDNS1123Label(s.Hostname))
	}
	if s.Subdomain != "" {
		f.addAll("spec.subdomain", validation.IsDNS1123Label(s.Subdomain))
	}
	if s.HostPID && s.ShareProcessNamespace != nil && *s.ShareProcessNamespace {
		f.add("spec.shareProcessNamespace", "cannot be set together with hostPID")
	}
	if s.HostUsers != nil && !*s.HostUsers && (s.HostNetwork || s.HostPID || s.HostIPC) {
		f.add("spec.hostUsers", "cannot be false together with hostNetwork, hostPID or hostIPC")
	}
	for i, a := range s.HostAliases {
		path := at("spec.hostAliases", i)
		validateIP(f, path+".ip", a.IP)
		for j, name := range a.Hostnames {
			f.addAll(at(path+".hostnames", j), validation.IsDNS1123Subdomain(name))
		}
	}
}

func validateIP(f *findings, path, ip string) {
	if _, err := netip.ParseAddr(ip); err != nil {
		f.add(path, "is %q, must be an IP address", ip)
	}
}

func validateTolerations(f *findings, tolerations []corev1.Toleration) {
	for i, t := range tolerations {
		path := at("spec.tolerations", i)
		oneOf(f, path+".operator", t.Operator,
			corev1.TolerationOpExists, corev1.TolerationOpEqual, corev1.TolerationOpLt, corev1.TolerationOpGt)
		oneOf(f, path+".effect", t.Effect,
			corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
		if t.Key != "" {
			f.addAll(path+".key", validation.IsQualifiedName(t.Key))
		} else if t.Operator != corev1.TolerationOpExists {
			f.add(path+".operator", "must be Exists when key is empty")
		}
		if t.Operator == corev1.TolerationOpExists && t.Value != "" {
			f.add(path+".value", "must be empty with operator Exists")
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			f.add(path+".effect", "must be NoExecute when tolerationSeconds is set")
		}
	}
}

func validatePodSecurity(f *findings, s *corev1.PodSpec) {
	c := s.SecurityContext
	const path = "spec.securityContext"
	validateID(f, path+".runAsUser", c.RunAsUser)
	validateID(f, path+".runAsGroup", c.RunAsGroup)
	validateID(f, path+".fsGroup", c.FSGroup)
	for i := range c.SupplementalGroups {
		validateID(f, at(path+".supplementalGroups", i), &c.SupplementalGroups[i])
	}
	if c.FSGroupChangePolicy != nil {
		oneOf(f, path+".fsGroupChangePolicy", *c.FSGroupChangePolicy, corev1.FSGroupChangeOnRootMismatch, corev1.FSGroupChangeAlways)
	}
	var names []string
	for i, sysctl := range c.Sysctls {
		field := at(path+".sysctls", i) + ".name"
		switch name := strings.ReplaceAll(sysctl.Name, "/", "."); {
		case name == "":
			f.add(field, "required")
		case slices.Contains(names, name):
			f.add(field, "%q is set twice", sysctl.Name)
		default:
			names = append(names, name)
		}
	}
	validateSeccomp(f, path+".seccompProfile", c.SeccompProfile)
	validateAppArmor(f, path+".appArmorProfile", c.AppArmorProfile)
}

func validateID(f *findings, path string, id *int64) {
	if id != nil && (*id < 0 || *id > maxInt32) {
		f.add(path, "is %d, must be between 0 and %d", *id, maxInt32)
	}
}

func validateSeccomp(f *findings, path string, p *corev1.SeccompProfile) {
	if p == nil {
		return
	}
	if p.Type == "" {
		f.add(path+".type", "required")
	}
	oneOf(f, path+".type", p.Type,
		corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined, corev1.SeccompProfileTypeLocalhost)
	if file := validateLocalhost(f, path, string(p.Type), p.LocalhostProfile); file != "" {
		validateRelative(f, path+".localhostProfile", file)
	}
}

// maxAppArmorName is the longest name of a profile that API servers take, PATH_MAX - 1.
const maxAppArmorName = 4095

func validateAppArmor(f *findings, path string, p *corev1.AppArmorProfile) {
	if p == nil {
		return
	}
	if p.Type == "" {
		f.add(path+".type", "required")
	}
	oneOf(f, path+".type", p.Type,
		corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined, corev1.AppArmorProfileTypeLocalhost)
	// A name is not a file: many begin with the path of a program.
	name := validateLocalhost(f, path, string(p.Type), p.LocalhostProfile)
	if strings.TrimSpace(name) != name {
		f.add(path+".localhostProfile", "is %q, must not begin or end with blanks", name)
	}
	if len(name) > maxAppArmorName {
		f.add(path+".localhostProfile", "has %d bytes, must not have more than %d", len(name), maxAppArmorName)
	}
}

// validateLocalhost checks that a profile goes with the type of one, and returns it; empty
// if there is none.
func validateLocalhost(f *findings, path, kind string, profile *string) string {
	want := kind == string(corev1.SeccompProfileTypeLocalhost) // AppArmor has the same word
	switch {
	case want && (profile == nil || *profile == ""):
		f.add(path+".localhostProfile", "required with type Localhost")
	case !want && profile != nil:
		f.add(path+".localhostProfile", "may be set with type Localhost only")
	case want:
		return *profile
	}
	return ""
}

// validateRelative refuses paths that leave the directory they are meant for.
func validateRelative(f *findings, path, value string) {
	if strings.HasPrefix(value, "/") {
		f.add(path, "is %q, must be a relative path", value)
	}
	validateNoBackstep(f, path, value)
}

func validateNoBackstep(f *findings, path, value string) {
	if slices.Contains(strings.Split(value, "/"), "..") {
		f.add(path, "is %q, must not contain '..'", value)
	}
}

func jsonName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}
