package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The longest DNS label (RFC 1035, section 2.3.4) and the longest name the kernel
// keeps (include/uapi/linux/utsname.h).
const (
	maxHostname = 63
	maxNodename = 64
)

// hostname returns the host name of a pod, and its fully qualified name if it is
// in a subdomain of the cluster. Of a cluster without a domain that name ends with a dot, as
// with a kubelet.
func hostname(pod *corev1.Pod, node *Node) (short, fqdn string) {
	if o := pod.Spec.HostnameOverride; o != nil && *o != "" {
		return cut(*o), ""
	}
	if pod.Spec.HostNetwork {
		return node.Name, ""
	}
	short = cut(or(pod.Spec.Hostname, pod.Name))
	if pod.Spec.Subdomain != "" {
		fqdn = strings.Join([]string{short, pod.Spec.Subdomain, pod.Namespace, "svc", node.DNS.ClusterDomain}, ".")
	}
	return short, fqdn
}

// cut shortens a name to what fits.
func cut(name string) string {
	if len(name) <= maxHostname {
		return name
	}
	return strings.TrimRight(name[:maxHostname], "-.")
}

// kernelName returns the name the kernel gives the pod, empty where the sandbox keeps
// the node's.
func kernelName(pod *corev1.Pod, node *Node) (string, error) {
	if pod.Spec.HostNetwork {
		return "", nil
	}
	short, fqdn := hostname(pod, node)
	if fqdn == "" || !isTrue(pod.Spec.SetHostnameAsFQDN) {
		return short, nil
	}
	if len(fqdn) > maxNodename {
		return "", fmt.Errorf("failed to construct FQDN from pod hostname and cluster domain, FQDN %s is too long (%d characters is the max, %d characters requested)",
			fqdn, maxNodename, len(fqdn))
	}
	return fqdn, nil
}
