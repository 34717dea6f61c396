package podspec

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// dirMode is the mode of log directories, which log collectors read.
const dirMode = 0o755

// ownMode is the mode of directories only the agent looks into.
const ownMode = 0o750

// SandboxSpec is what it takes to run the sandbox of a pod.
type SandboxSpec struct {
	// Config is for the runtime.
	Config *runtimeapi.PodSandboxConfig
	// Paths have to exist before.
	Paths []Path
	// Cuts says what of the DNS configuration did not fit, a sentence each.
	Cuts []string
}

// Sandbox returns the configuration of the n-th sandbox of a pod, counting from 0.
func Sandbox(pod *corev1.Pod, node *Node, attempt uint32) SandboxSpec {
	short, _ := hostname(pod, node)
	if pod.Spec.HostNetwork && pod.Spec.HostnameOverride == nil {
		short = "" // the sandbox keeps the node's
	}
	resolver, cuts := node.DNS.Resolve(pod)
	return SandboxSpec{
		Config: &runtimeapi.PodSandboxConfig{
			Metadata: &runtimeapi.PodSandboxMetadata{
				Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID), Attempt: attempt,
			},
			Hostname:     short,
			LogDirectory: node.LogDir(pod),
			DnsConfig:    resolver.config(),
			PortMappings: portMappings(pod),
			Labels:       sandboxLabels(pod),
			Annotations:  sandboxAnnotations(pod, node),
			Linux: &runtimeapi.LinuxPodSandboxConfig{
				CgroupParent:    node.parentOf(pod),
				SecurityContext: sandboxSecurity(pod),
			},
		},
		Paths: []Path{
			{Kind: OwnDir, Path: node.LogDir(pod), Mode: dirMode},
			{Kind: OwnDir, Path: node.PodDir(pod.UID), Mode: ownMode},
		},
		Cuts: cuts,
	}
}

func portMappings(pod *corev1.Pod) []*runtimeapi.PortMapping {
	var out []*runtimeapi.PortMapping
	var seen []corev1.ContainerPort
	for i := range pod.Spec.Containers {
		for _, p := range pod.Spec.Containers[i].Ports {
			p.Name = ""
			if slices.Contains(seen, p) {
				continue
			}
			seen = append(seen, p)
			out = append(out, &runtimeapi.PortMapping{
				Protocol: protocol(p.Protocol), ContainerPort: p.ContainerPort, HostPort: p.HostPort, HostIp: p.HostIP,
			})
		}
	}
	return out
}

func protocol(p corev1.Protocol) runtimeapi.Protocol {
	switch p {
	case corev1.ProtocolUDP:
		return runtimeapi.Protocol_UDP
	case corev1.ProtocolSCTP:
		return runtimeapi.Protocol_SCTP
	case corev1.ProtocolTCP:
	}
	return runtimeapi.Protocol_TCP
}
