package admission

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Sysctls are the kernel settings that pods may make. The zero value has those
// that are safe on every kernel.
type Sysctls struct {
	names    []string // besides the safe ones, written with dots
	prefixes []string
}

// NewSysctls returns the settings that are safe on a kernel, and those besides that
// allowedUnsafeSysctls of a KubeletConfiguration names: settings like
// "net.core.somaxconn", or groups like "net.core.*" and "kernel.msg*". A version of
// "" adds no setting that needs one. The error names each pattern that does not
// stay within a pod's own namespaces.
func NewSysctls(kernelVersion string, unsafe []string) (Sysctls, error) {
	var s Sysctls
	for _, gated := range gatedSysctls() {
		if gated.since.within(kernelVersion) {
			s.names = append(s.names, gated.name)
		}
	}
	var errs []error
	for _, pattern := range unsafe {
		name := normalize(pattern)
		prefix, isPrefix := strings.CutSuffix(name, "*")
		switch {
		case namespaceOf(prefix) == "" || !validSysctl(prefix, isPrefix):
			errs = append(errs, fmt.Errorf("allowed unsafe sysctl %q: must be one of the namespaced kernel.shm*, kernel.msg*, kernel.sem, fs.mqueue.* and net.*", pattern))
		case isPrefix:
			s.prefixes = append(s.prefixes, prefix)
		default:
			s.names = append(s.names, name)
		}
	}
	return s, errors.Join(errs...)
}

// safeSysctls are isolated between pods and harm no other pod
// (https://kubernetes.io/docs/tasks/administer-cluster/sysctl-cluster).
func safeSysctls() []string {
	return []string{
		"kernel.shm_rmid_forced",
		"net.ipv4.ip_local_port_range",
		"net.ipv4.tcp_syncookies",
		"net.ipv4.ping_group_range",
		"net.ipv4.ip_unprivileged_port_start",
	}
}

// gatedSysctl is safe from a version of the kernel on.
type gatedSysctl struct {
	name  string
	since version
}

// gatedSysctls are from the same list.
func gatedSysctls() []gatedSysctl {
	return []gatedSysctl{
		{"net.ipv4.ip_local_reserved_ports", version{3, 16}},
		{"net.ipv4.tcp_keepalive_time", version{4, 5}},
		{"net.ipv4.tcp_fin_timeout", version{4, 6}},
		{"net.ipv4.tcp_keepalive_intvl", version{4, 5}},
		{"net.ipv4.tcp_keepalive_probes", version{4, 5}},
		{"net.ipv4.tcp_rmem", version{4, 15}},
		{"net.ipv4.tcp_wmem", version{4, 15}},
		{"net.ipv4.tcp_slow_start_after_idle", version{4, 15}},
		{"net.ipv4.tcp_notsent_lowat", version{4, 6}},
	}
}

// check refuses a pod that sets what it may not, or what its namespaces share with
// the host.
func (s Sysctls) check(pod *corev1.Pod) Decision {
	if pod.Spec.SecurityContext == nil {
		return admit()
	}
	for _, setting := range pod.Spec.SecurityContext.Sysctls {
		name := normalize(setting.Name)
		namespace := namespaceOf(name)
		switch {
		case !s.allow(name):
			return refuse(Never, ReasonSysctl, "forbidden sysctl: %q not allowlisted", name)
		case namespace == namespaceNet && pod.Spec.HostNetwork, namespace == namespaceIPC && pod.Spec.HostIPC:
			return refuse(Never, ReasonSysctl, "forbidden sysctl: %q not allowed with host %s enabled", name, namespace)
		}
	}
	return admit()
}

func (s Sysctls) allow(name string) bool {
	return slices.Contains(safeSysctls(), name) || slices.Contains(s.names, name) ||
		slices.ContainsFunc(s.prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// The namespaces of settings, as messages name them.
const (
	namespaceIPC = "IPC"
	namespaceNet = "Net"
)

// namespaceOf returns the namespace that a setting belongs to, "" for one of the
// whole machine (ipc_namespaces(7), network_namespaces(7)).
func namespaceOf(name string) string {
	switch {
	case name == "kernel.sem", strings.HasPrefix(name, "kernel.shm"), strings.HasPrefix(name, "kernel.msg"), strings.HasPrefix(name, "fs.mqueue."):
		return namespaceIPC
	case strings.HasPrefix(name, "net."):
		return namespaceNet
	}
	return ""
}

// sysctlName is what a normal name looks like; the names of network devices in it
// may have dots, which are slashes then.
var sysctlName = regexp.MustCompile(`^[a-z0-9]([-_a-z0-9]*[a-z0-9])?([./][a-z0-9]([-_a-z0-9]*[a-z0-9])?)*$`)

// validSysctl takes a prefix that ends in the middle of a name or after a dot.
func validSysctl(name string, prefix bool) bool {
	if prefix {
		name = strings.TrimRight(name, "._-")
	}
	return sysctlName.MatchString(name)
}

// normalize turns "net/ipv4/conf/eth0.1/x" into "net.ipv4.conf.eth0/1.x": the first
// separator decides which one is meant, as in sysctl(8).
func normalize(name string) string {
	i := strings.IndexAny(name, "./")
	if i < 0 || name[i] == '.' {
		return name
	}
	return strings.Map(func(r rune) rune {
		switch r {
		case '/':
			return '.'
		case '.':
			return '/'
		}
		return r
	}, name)
}

// version is that of a kernel.
type version struct{ major, minor int }

// within reports whether a kernel like "6.1.0-13-amd64" is at least of the version.
func (v version) within(kernel string) bool {
	majorText, rest, _ := strings.Cut(kernel, ".")
	minorText := rest
	if i := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		minorText = rest[:i]
	}
	major, err := strconv.Atoi(majorText)
	if err != nil {
		return false
	}
	minor, err := strconv.Atoi(minorText)
	if err != nil {
		return false
	}
	return major > v.major || major == v.major && minor >= v.minor
}
