package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Runtime is what CRI needs of a container runtime: the calls of these names.
// *runtime.Client is one.
type Runtime interface {
	ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error)
	ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error)
	ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error)
	Exec(ctx context.Context, req *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error)
	Attach(ctx context.Context, req *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error)
	PortForward(ctx context.Context, req *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error)
	ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) (stdout, stderr []byte, err error)
	CheckpointContainer(ctx context.Context, req *runtimeapi.CheckpointContainerRequest) error
}

// CRIConfig adjusts a CRI. The zero value is ready for use.
type CRIConfig struct {
	// LogRoot is the folder of all pods' logs. Logs elsewhere are refused. Empty:
	// /var/log/pods.
	LogRoot string
	// CheckpointDir is where checkpoints are written, made with mode 0700 if it is missing.
	// Empty: /var/lib/kubelet/checkpoints.
	CheckpointDir string
}

// The folders of the kubelet.
const (
	defaultLogRoot       = "/var/log/pods"
	defaultCheckpointDir = "/var/lib/kubelet/checkpoints"
)

// CRI does what is asked of containers with a container runtime. It finds containers by the
// labels that the kubelet gives them. It implements every interface in Containers.
type CRI struct {
	runtime Runtime
	cfg     CRIConfig
}

// NewCRI returns a CRI. It does nothing yet.
func NewCRI(rt Runtime, cfg CRIConfig) (*CRI, error) {
	if rt == nil {
		return nil, errors.New("server: the runtime of a CRI is nil")
	}
	cfg.LogRoot = cmp.Or(cfg.LogRoot, defaultLogRoot)
	cfg.CheckpointDir = cmp.Or(cfg.CheckpointDir, defaultCheckpointDir)
	return &CRI{runtime: rt, cfg: cfg}, nil
}

// Containers returns c as everything that a Server does with containers.
func (c *CRI) Containers() Containers {
	return Containers{Logs: c, Streams: c, Commands: c, Checkpoints: c, Running: c}
}

// The labels of a kubelet's sandboxes and containers (k8s.io/kubelet/pkg/types).
const (
	labelPodName       = "io.kubernetes.pod.name"
	labelPodNamespace  = "io.kubernetes.pod.namespace"
	labelPodUID        = "io.kubernetes.pod.uid"
	labelContainerName = "io.kubernetes.container.name"
)

// find returns the id of the container's newest run that is in progress.
func (c *CRI) find(ctx context.Context, of Container) (string, error) {
	list, err := c.runtime.ListContainers(ctx, &runtimeapi.ContainerFilter{
		State:         &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
		LabelSelector: map[string]string{labelPodUID: string(of.Pod.UID), labelContainerName: of.Name},
	})
	if err != nil {
		return "", fmt.Errorf("find container %q: %w", of.Name, err)
	}
	if len(list) == 0 {
		return "", fmt.Errorf("container not found (%q)", of.Name)
	}
	return slices.MaxFunc(list, func(a, b *runtimeapi.Container) int { return cmp.Compare(a.GetCreatedAt(), b.GetCreatedAt()) }).GetId(), nil
}

// Exec implements Streams.
func (c *CRI) Exec(ctx context.Context, of Container, cmd []string, opts StreamOptions) (*url.URL, error) {
	id, err := c.find(ctx, of)
	if err != nil {
		return nil, err
	}
	resp, err := c.runtime.Exec(ctx, &runtimeapi.ExecRequest{
		ContainerId: id, Cmd: cmd, Tty: opts.TTY, Stdin: opts.Stdin, Stdout: opts.Stdout, Stderr: opts.Stderr,
	})
	if err != nil {
		return nil, err
	}
	return parseURL(resp.GetUrl())
}

// Attach implements Streams.
func (c *CRI) Attach(ctx context.Context, of Container, opts StreamOptions) (*url.URL, error) {
	if _, ok := of.spec(); !ok {
		return nil, fmt.Errorf("container %s not found in pod %s", of.Name, of.Pod.Name)
	}
	id, err := c.find(ctx, of)
	if err != nil {
		return nil, err
	}
	opts = of.attached(opts)
	resp, err := c.runtime.Attach(ctx, &runtimeapi.AttachRequest{
		ContainerId: id, Tty: opts.TTY, Stdin: opts.Stdin, Stdout: opts.Stdout, Stderr: opts.Stderr,
	})
	if err != nil {
		return nil, err
	}
	return parseURL(resp.GetUrl())
}

// PortForward implements Streams.
func (c *CRI) PortForward(ctx context.Context, pod *corev1.Pod, ports []int32) (*url.URL, error) {
	list, err := c.runtime.ListPodSandbox(ctx, &runtimeapi.PodSandboxFilter{
		State:         &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
		LabelSelector: map[string]string{labelPodUID: string(pod.UID)},
	})
	if err != nil {
		return nil, fmt.Errorf("find pod %q: %w", pod.Name, err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("pod not found (%q)", fullName(pod))
	}
	newest := slices.MaxFunc(list, func(a, b *runtimeapi.PodSandbox) int { return cmp.Compare(a.GetCreatedAt(), b.GetCreatedAt()) })
	resp, err := c.runtime.PortForward(ctx, &runtimeapi.PortForwardRequest{PodSandboxId: newest.GetId(), Port: ports})
	if err != nil {
		return nil, err
	}
	return parseURL(resp.GetUrl())
}

// parseURL reads the URL of a stream, which is not shown to anybody: it holds a token.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return nil, errors.New("the runtime's answer for the stream is no URL with a host")
	}
	return u, nil
}

// Run implements Commands.
func (c *CRI) Run(ctx context.Context, of Container, cmd []string) ([]byte, error) {
	id, err := c.find(ctx, of)
	if err != nil {
		return nil, err
	}
	stdout, stderr, err := c.runtime.ExecSync(ctx, id, cmd, 0)
	if err != nil {
		return nil, errors.Join(err, said(stderr))
	}
	return slices.Concat(stdout, stderr), nil
}

// said is what a command that failed had to say.
func said(stderr []byte) error {
	text := strings.TrimSpace(string(stderr))
	if text == "" {
		return nil
	}
	return errors.New(text)
}

// Checkpoint implements Checkpoints. The archive is named after the container and the time.
func (c *CRI) Checkpoint(ctx context.Context, of Container, timeout time.Duration) (string, error) {
	id, err := c.find(ctx, of)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(c.cfg.CheckpointDir, 0o700); err != nil {
		return "", fmt.Errorf("make the folder of checkpoints: %w", err)
	}
	name := fmt.Sprintf("checkpoint-%s-%s-%s.tar", fullName(of.Pod), of.Name, time.Now().Format(time.RFC3339))
	archive := filepath.Join(c.cfg.CheckpointDir, name)
	err = c.runtime.CheckpointContainer(ctx, &runtimeapi.CheckpointContainerRequest{
		ContainerId: id, Location: archive, Timeout: int64(timeout / time.Second),
	})
	if err != nil {
		return "", err
	}
	return archive, nil
}

// Running implements RunningPods.
func (c *CRI) Running(ctx context.Context) ([]*corev1.Pod, error) {
	list, err := c.runtime.ListContainers(ctx, &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	pods := map[types.UID]*corev1.Pod{}
	for _, container := range list {
		labels := container.GetLabels()
		uid := types.UID(labels[labelPodUID])
		if uid == "" {
			continue // not a pod's
		}
		pod := pods[uid]
		if pod == nil {
			pod = &corev1.Pod{}
			pod.Name, pod.Namespace, pod.UID = labels[labelPodName], labels[labelPodNamespace], uid
			pods[uid] = pod
		}
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: labels[labelContainerName], Image: container.GetImage().GetImage(),
		})
	}
	sorted := make([]*corev1.Pod, 0, len(pods))
	for _, pod := range pods {
		sorted = append(sorted, pod)
	}
	slices.SortFunc(sorted, func(a, b *corev1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(string(a.UID), string(b.UID)))
	})
	return sorted, nil
}

// fullName is how the kubelet names a pod in the names of files.
func fullName(pod *corev1.Pod) string { return pod.Name + "_" + pod.Namespace }
