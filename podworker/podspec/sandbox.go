package podspec

import (
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
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

// SandboxRun is what tells one sandbox of a pod from another. The zero value is the
// first one of a pod that was given nothing.
type SandboxRun struct {
	// Attempt counts the sandboxes of the pod, from 0.
	Attempt uint32
	// Grant is what the pod was given.
	Grant Grant
}

// Sandbox returns the configuration of a sandbox of a pod. An error says what in the
// pod cannot be fulfilled, such as a host name that is too long for the kernel.
func Sandbox(pod *corev1.Pod, node *Node, run SandboxRun) (SandboxSpec, error) {
	name, err := kernelName(pod, node)
	if err != nil {
		return SandboxSpec{}, err
	}
	resolver, cuts := node.DNS.Resolve(pod)
	overhead, resources := SandboxResources(pod, node)
	return SandboxSpec{
		Config: &runtimeapi.PodSandboxConfig{
			Metadata: &runtimeapi.PodSandboxMetadata{
				Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID), Attempt: run.Attempt,
			},
			Hostname:     name,
			LogDirectory: node.LogDir(pod),
			DnsConfig:    resolver.config(),
			PortMappings: portMappings(pod),
			Labels:       sandboxLabels(pod),
			Annotations:  sandboxAnnotations(pod, node),
			Linux: &runtimeapi.LinuxPodSandboxConfig{
				CgroupParent:    node.parentOf(pod),
				Sysctls:         sysctls(pod),
				SecurityContext: sandboxSecurity(pod, &run.Grant),
				Overhead:        overhead,
				Resources:       resources,
			},
		},
		Paths: []Path{
			{Kind: OwnDir, Path: node.LogDir(pod), Mode: dirMode},
			{Kind: OwnDir, Path: node.PodDir(pod.UID), Mode: ownMode},
		},
		Cuts: cuts,
	}, nil
}

// portMappings returns the ports of containers and sidecars, each once.
func portMappings(pod *corev1.Pod) []*runtimeapi.PortMapping {
	var out []*runtimeapi.PortMapping
	var seen []corev1.ContainerPort
	for c := range lasting(pod) {
		for _, p := range c.Ports {
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

// lasting goes through the containers that live as long as the pod: sidecars and
// regular ones.
func lasting(pod *corev1.Pod) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for i := range pod.Spec.InitContainers {
			if c := &pod.Spec.InitContainers[i]; podstatus.IsSidecar(c) && !yield(c) {
				return
			}
		}
		for i := range pod.Spec.Containers {
			if !yield(&pod.Spec.Containers[i]) {
				return
			}
		}
	}
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
