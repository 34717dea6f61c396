package testnode

import (
	"context"
	"fmt"
	"path/filepath"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// StrangerNamespace is the namespace of strangers.
const StrangerNamespace = "strangers"

// Stranger is a pod that somebody else than our kubelet made on the same runtime,
// as crictl(1) does.
type Stranger struct {
	// Name is the pod's name. Its namespace is [StrangerNamespace].
	Name string
	// Image is the container's image; see [Image.Ref].
	Image string
	// Args are the container's arguments.
	Args []string
	// Annotations are the sandbox's, nil as a rule.
	Annotations map[string]string
}

// StrangerIDs are what the runtime calls a stranger's parts.
type StrangerIDs struct{ Sandbox, Container string }

// RunStranger starts the pod over CRI, past the kubelet.
func (n *Node) RunStranger(ctx context.Context, pod Stranger) (StrangerIDs, error) {
	uid := "stranger-" + pod.Name
	labels := map[string]string{
		"io.kubernetes.pod.name":      pod.Name,
		"io.kubernetes.pod.namespace": StrangerNamespace,
		"io.kubernetes.pod.uid":       uid,
	}
	sandbox := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: pod.Name, Namespace: StrangerNamespace, Uid: uid},
		Hostname:     pod.Name,
		LogDirectory: filepath.Join(n.PodLogs(), "strangers_"+pod.Name),
		Labels:       labels,
		Annotations:  pod.Annotations,
		Linux:        &runtimeapi.LinuxPodSandboxConfig{CgroupParent: n.CgroupRoot() + "/strangers"},
	}
	made, err := n.cri.Runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: sandbox})
	if err != nil {
		return StrangerIDs{}, fmt.Errorf("run sandbox of %s: %w", pod.Name, err)
	}
	ids := StrangerIDs{Sandbox: made.GetPodSandboxId()}
	created, err := n.cri.Runtime.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId:  ids.Sandbox,
		SandboxConfig: sandbox,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "main"},
			Image:    &runtimeapi.ImageSpec{Image: pod.Image},
			Args:     pod.Args,
			Labels:   labels,
			LogPath:  "main.log",
			Linux:    &runtimeapi.LinuxContainerConfig{},
		},
	})
	if err != nil {
		return ids, fmt.Errorf("create container of %s: %w", pod.Name, err)
	}
	ids.Container = created.GetContainerId()
	_, err = n.cri.Runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: ids.Container})
	if err != nil {
		return ids, fmt.Errorf("start container of %s: %w", pod.Name, err)
	}
	return ids, nil
}

// ContainerStatus asks the runtime for a container's status.
func (c *CRI) ContainerStatus(ctx context.Context, id string) (*runtimeapi.ContainerStatus, error) {
	answer, err := c.Runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		return nil, fmt.Errorf("ask for container %s: %w", id, err)
	}
	return answer.GetStatus(), nil
}
