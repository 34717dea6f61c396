package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// sysctls returns the kernel parameters of a pod with dots between their parts.
func sysctls(pod *corev1.Pod) map[string]string {
	sc := pod.Spec.SecurityContext
	if sc == nil || len(sc.Sysctls) == 0 {
		return nil
	}
	out := make(map[string]string, len(sc.Sysctls))
	for _, s := range sc.Sysctls {
		out[dotted(s.Name)] = s.Value
	}
	return out
}

// dotted returns the name of a kernel parameter with dots between its parts. Where
// the first separator is a slash, slashes separate, and dots are part of names, as in
// net/ipv4/conf/eth0.1/forwarding (sysctl.d(5)).
func dotted(name string) string {
	if i := strings.IndexAny(name, "./"); i < 0 || name[i] == '.' {
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
