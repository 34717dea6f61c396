package podsync

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Sandboxes is what a Syncer needs of a runtime's sandboxes. The calls behave as
// CRI v1 says; their errors are told apart by gRPC code.
type Sandboxes interface {
	RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, runtimeHandler string) (string, error)
	StopPodSandbox(ctx context.Context, podSandboxID string) error
	RemovePodSandbox(ctx context.Context, podSandboxID string) error
	PodSandboxStatus(ctx context.Context, podSandboxID string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error)
	ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error)
}

// Containers is what a Syncer needs of a runtime's containers.
type Containers interface {
	CreateContainer(ctx context.Context, podSandboxID string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error)
	StartContainer(ctx context.Context, containerID string) error
	StopContainer(ctx context.Context, containerID string, timeout int64) error
	RemoveContainer(ctx context.Context, containerID string) error
	ContainerStatus(ctx context.Context, containerID string, verbose bool) (*runtimeapi.ContainerStatusResponse, error)
	ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error)
}

// Images is what a Syncer needs of a runtime's images.
type Images interface {
	ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error)
	PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, podSandboxConfig *runtimeapi.PodSandboxConfig) (string, error)
}

// Runtime is a container runtime in its three roles. runtime.Client is one, and so
// is a client of k8s.io/cri-client. Every call has to end in bounded time by itself,
// as it does with these; a Syncer ends one early only when its context ends.
//
// A Runtime that also has the method Status of CRI v1, as these have, is asked
// whether its network is ready before a sandbox is made, and every second while it
// is not. Without the method the sandbox is just tried.
type Runtime interface {
	Sandboxes
	Containers
	Images
}

// conditions is the ability of a runtime to say whether its network is ready.
type conditions interface {
	Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error)
}
