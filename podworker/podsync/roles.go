package podsync

import (
	"context"
	"io/fs"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
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

// Commands is what a Syncer needs of running containers: to run the commands of hooks
// in them, and to change what they have of the node. ExecSync with a timeout of 0 is
// bounded by its context only; a command that ends with another exit code than 0 is an
// error.
type Commands interface {
	ExecSync(ctx context.Context, containerID string, cmd []string, timeout time.Duration) (stdout, stderr []byte, err error)
	UpdateContainerResources(ctx context.Context, containerID string, resources *runtimeapi.ContainerResources) error
}

// Pulls is what a Syncer without [Images] needs of a runtime's images.
type Pulls interface {
	ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error)
	PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, podSandboxConfig *runtimeapi.PodSandboxConfig) (string, error)
}

// Runtime is a container runtime in its roles. runtime.Client is one, and so is a
// client of k8s.io/cri-client. Every call has to end in bounded time by itself, as it
// does with these; a Syncer ends one early only when its context ends.
//
// A Runtime that also has the method Status of CRI v1, as these have, is asked
// whether its network is ready before a sandbox is made, and every second while it
// is not. Without the method the sandbox is just tried.
type Runtime interface {
	Sandboxes
	Containers
	Commands
	Pulls
}

// conditions is the ability of a runtime to say whether its network is ready.
type conditions interface {
	Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error)
}

// Images has the images of containers on the node. runtime/images.Manager is one.
type Images interface {
	// ForContainer returns the image of a container once the node has it, however
	// long that takes. It tells the user what it does by itself. An error with the
	// methods WaitingReason() string and RetryAfter() time.Duration says what the
	// status of the container shows and when it makes sense to try again.
	ForContainer(ctx context.Context, pod *corev1.Pod, c *corev1.Container, sandbox *runtimeapi.PodSandboxConfig) (*runtimeapi.Image, error)
	// Forget drops what is remembered of a pod.
	Forget(uid types.UID)
}

// PodCgroups makes the cgroups of pods, which hold their containers to the limits of
// the whole pod.
type PodCgroups interface {
	// EnsurePod makes the cgroup of a pod, or sets the one it has to what the pod asks
	// for.
	EnsurePod(ctx context.Context, pod *corev1.Pod) error
	// RemovePod removes it, and kills what is left in it. One that is not there is no
	// error.
	RemovePod(ctx context.Context, uid types.UID) error
}

// Volumes sets up the volumes of pods. podworker/volume.Manager does it; what it returns has
// to be put into the words of podspec, so that neither package brings the other along.
type Volumes interface {
	// SetUp makes every volume that a container of the pod mounts ready, however long that
	// takes, and returns them by name. It is called before a container starts and when the
	// pod has changed; what is ready already stays as it is. It tells the user what it does
	// by itself.
	SetUp(ctx context.Context, pod *corev1.Pod) (map[string]podspec.Volume, error)
	// TearDown removes them and all that was bound for sub-paths, by what is on disk. It
	// returns nil when nothing is left.
	TearDown(ctx context.Context, uid types.UID) error
}

// Mounts binds parts of volumes to places of their own. podworker/volume.Mounter is one.
type Mounts interface {
	// Bind mounts sub, a path below base that leads out of it by no link, at target.
	Bind(ctx context.Context, base, sub, target string, mode fs.FileMode) error
}

// Extras are what single containers are given of the node beside what their specs say.
//
// ForContainer is called before each run of a container is created, by the goroutine
// that starts it, so that one that takes long delays its own pod only. What it returns
// goes into the configuration for the runtime as it is. It is the place for what has to
// be done before a container starts, such as to reset its devices. An error leaves the
// container waiting with reason CreateContainerConfigError; it is asked again with the
// next Sync.
//
// NoCPUQuota reports whether a container was given CPUs of its own, as
// [podspec.Extra.NoCPUQuota] says, so that a change of its resources while it runs does not
// bring the quota back. It must not block.
type Extras interface {
	NoCPUQuota(uid types.UID, container string) bool
	ForContainer(ctx context.Context, pod *corev1.Pod, c *corev1.Container) (podspec.Extra, error)
}

// Resizer decides whether the node can give a pod other resources than it has.
type Resizer interface {
	// Resize returns an empty reason to accept what the pod now asks for, or why not:
	// corev1.PodReasonDeferred, and it is asked again at the next Sync, or
	// corev1.PodReasonInfeasible. has is the pod with what it has now.
	Resize(ctx context.Context, pod, has *corev1.Pod) (reason, message string)
}

// Doer sends the requests of HTTP hooks; *http.Client is one.
type Doer interface {
	Do(req *http.Request) (*http.Response, error)
}
