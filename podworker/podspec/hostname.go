package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// maxHostname is the length of a DNS label (RFC 1035, section 2.3.4).
const maxHostname = 63

// hostname returns the host name of a pod, and its fully qualified name if it is
// in a subdomain of the cluster.
func hostname(pod *corev1.Pod, node *Node) (short, fqdn string) {
	if o := pod.Spec.HostnameOverride; o != nil && *o != "" {
		return *o, ""
	}
	if pod.Spec.HostNetwork {
		return node.Name, ""
	}
	short = or(pod.Spec.Hostname, pod.Name)
	if len(short) > maxHostname {
		short = strings.TrimRight(short[:maxHostname], "-.")
	}
	if pod.Spec.Subdomain != "" && node.DNS.ClusterDomain != "" {
		fqdn = strings.Join([]string{short, pod.Spec.Subdomain, pod.Namespace, "svc", node.DNS.ClusterDomain}, ".")
	}
	return short, fqdn
}
