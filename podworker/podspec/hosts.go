package podspec

import (
	"bytes"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// hostsPath is where containers expect the hosts(5) file.
const hostsPath = "/etc/hosts"

// ownHosts are the lines every pod with a network of its own starts with.
const ownHosts = `# Kubernetes-managed hosts file.
127.0.0.1	localhost
::1	localhost ip6-localhost ip6-loopback
fe00::0	ip6-localnet
fe00::0	ip6-mcastprefix
fe00::1	ip6-allnodes
fe00::2	ip6-allrouters
`

// hosts returns the content of the hosts file of a pod.
func hosts(pod *corev1.Pod, node *Node, podIPs []string) []byte {
	var b bytes.Buffer
	if pod.Spec.HostNetwork {
		b.WriteString("# Kubernetes-managed hosts file (host network).\n")
		b.Write(node.Hosts)
	} else {
		b.WriteString(ownHosts)
		short, fqdn := hostname(pod, node)
		for _, ip := range podIPs {
			if fqdn != "" {
				fmt.Fprintf(&b, "%s\t%s\t%s\n", ip, fqdn, short)
			} else {
				fmt.Fprintf(&b, "%s\t%s\n", ip, short)
			}
		}
	}
	if len(pod.Spec.HostAliases) > 0 {
		b.WriteString("\n# Entries added by HostAliases.\n")
		for _, a := range pod.Spec.HostAliases {
			fmt.Fprintf(&b, "%s\t%s\n", a.IP, strings.Join(a.Hostnames, "\t"))
		}
	}
	return b.Bytes()
}
