package podspec

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Run is what tells one run of a container from another. The zero value is a first
// run, without termination message, addresses and image identity.
type Run struct {
	// Attempt counts the runs, from 0. It is the restart count of the container.
	Attempt uint32
	// Backoff is kept with the container, see [AnnotationBackoff]; negative: it is
	// not.
	Backoff time.Duration
	// ImageRef is the image as the runtime resolved it; empty: the pod's name for it.
	ImageRef string
	// ImageUser is the user the image asks for.
	ImageUser User
	// PodIPs are the addresses of the pod, the primary one first. On the network of
	// the node they are the node's.
	PodIPs []string
	// MessageFile is the name of the file for the termination message in
	// [MessageDir]; empty: the container gets none.
	MessageFile string
	// Target is the runtime's id of the container whose processes an ephemeral
	// container sees; empty: its own only.
	Target string
	// Volumes are the volumes of the pod that are ready, by name. All that the container
	// mounts have to be among them, but those of images.
	Volumes map[string]Volume
	// Images are the images of volumes as the runtime resolved them, by the name of
	// the volume.
	Images map[string]string
	// Grant is what the pod was given.
	Grant Grant
	// References are what variables refer to beyond the pod.
	References References
	// Extra is what the container is given of the node.
	Extra Extra
}

// Volume is a volume of a pod that is ready on the host.
type Volume struct {
	// Path is where it is.
	Path string
	// Block is true if Path is a block device.
	Block bool
	// ReadOnly is true if containers may only read, whatever they ask for.
	ReadOnly bool
	// Relabel is true if the volume is the pod's own, so that on a node with SELinux it
	// gets the label of the container.
	Relabel bool
	// Group is one that processes of the pod have to be of to use it; nil: none. All that
	// volumes of a pod have belong into Grant.Groups.
	Group *int64
}

// ContainerSpec is what it takes to create a container.
type ContainerSpec struct {
	// Config is for the runtime.
	Config *runtimeapi.ContainerConfig
	// Paths have to exist before.
	Paths []Path
}

// LogPath returns the path of the log of one run below the log directory of its
// pod.
func LogPath(container string, attempt uint32) string {
	return filepath.Join(container, strconv.FormatUint(uint64(attempt), 10)+".log")
}

// Container returns the configuration of one run of a container of the pod, be it
// regular, an init container or, converted, an ephemeral one. An error says what in
// the pod cannot be fulfilled, such as runAsNonRoot with an image that runs as root.
func Container(pod *corev1.Pod, c *corev1.Container, node *Node, run Run) (ContainerSpec, error) {
	env, err := newEnvironment(pod, c, node, &run)
	if err != nil {
		return ContainerSpec{}, err
	}
	security, err := containerSecurity(pod, c, node, &run)
	if err != nil {
		return ContainerSpec{}, err
	}
	annotations, err := containerAnnotations(pod, c, &run)
	if err != nil {
		return ContainerSpec{}, err
	}
	mounts := mounter{pod: pod, c: c, node: node, run: &run, env: env}
	if err := mounts.all(); err != nil {
		return ContainerSpec{}, err
	}
	blocks, err := devices(c, &run)
	if err != nil {
		return ContainerSpec{}, err
	}
	logs := Path{Kind: OwnDir, Path: filepath.Join(node.LogDir(pod), c.Name), Mode: dirMode}
	signal, _ := stopSignal(signalOf(c)) // Check looked at it
	return ContainerSpec{
		Paths: append([]Path{logs}, mounts.paths...),
		Config: &runtimeapi.ContainerConfig{
			Metadata:    &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: run.Attempt},
			Image:       &runtimeapi.ImageSpec{Image: or(run.ImageRef, c.Image), UserSpecifiedImage: c.Image},
			Command:     expandAll(c.Command, env.look),
			Args:        expandAll(c.Args, env.look),
			WorkingDir:  c.WorkingDir,
			Envs:        slices.Concat(run.Extra.Envs, env.list),
			Mounts:      slices.Concat(run.Extra.Mounts, mounts.list),
			Devices:     slices.Concat(run.Extra.Devices, blocks),
			CDIDevices:  run.Extra.CDIDevices,
			Labels:      containerLabels(pod, c),
			Annotations: annotations,
			LogPath:     LogPath(c.Name, run.Attempt),
			Stdin:       c.Stdin,
			StdinOnce:   c.StdinOnce,
			Tty:         c.TTY,
			StopSignal:  signal,
			Linux: &runtimeapi.LinuxContainerConfig{
				Resources:       run.Extra.apply(Resources(pod, c, node)),
				SecurityContext: security,
			},
		},
	}, nil
}

func signalOf(c *corev1.Container) *corev1.Signal {
	if c.Lifecycle == nil {
		return nil
	}
	return c.Lifecycle.StopSignal
}

// stopSignal translates the signal that stops a container, SIGRTMIN+1 to
// SIGNAL_SIGRTMINPLUS1. Nil is the image's choice.
func stopSignal(s *corev1.Signal) (signal runtimeapi.Signal, known bool) {
	if s == nil {
		return runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT, true
	}
	name := strings.NewReplacer("+", "PLUS", "-", "MINUS").Replace(string(*s))
	n, known := runtimeapi.Signal_value["SIGNAL_"+name]
	return runtimeapi.Signal(n), known && n != 0
}

// volume returns the volume of the pod a mount names.
func volume(pod *corev1.Pod, name string) (*corev1.Volume, error) {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == name {
			return &pod.Spec.Volumes[i], nil
		}
	}
	return nil, fmt.Errorf("volume mount %s: the pod has no such volume", name)
}
