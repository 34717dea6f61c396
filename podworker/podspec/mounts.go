package podspec

import (
	"io/fs"
	"path"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Modes of what is mounted into containers.
const (
	emptyDirMode = 0o777
	hostsMode    = 0o644
	messageMode  = 0o666
)

// mounts returns the mounts of a container: its volumes in order, then the hosts
// file and the file for the termination message.
func mounts(pod *corev1.Pod, c *corev1.Container, node *Node, run *Run) ([]*runtimeapi.Mount, []Path, error) {
	var out []*runtimeapi.Mount
	var paths []Path
	ownsHosts := false
	for i := range c.VolumeMounts {
		vm := &c.VolumeMounts[i]
		v, err := volume(pod, vm.Name)
		if err != nil {
			return nil, nil, err
		}
		m, p := volumeMount(pod, v, vm, node)
		ownsHosts = ownsHosts || m.ContainerPath == hostsPath
		out, paths = append(out, m), append(paths, p)
	}
	if !ownsHosts && (len(run.PodIPs) > 0 || pod.Spec.HostNetwork) {
		file := Path{Kind: OwnFile, Path: filepath.Join(node.PodDir(pod.UID), "etc-hosts"), Mode: hostsMode, Content: hosts(pod, node, run.PodIPs)}
		out, paths = append(out, fileMount(file.Path, hostsPath, node)), append(paths, file)
	}
	if run.MessageFile != "" && c.TerminationMessagePath != "" {
		dir := Path{Kind: OwnDir, Path: MessageDir(pod, node, c.Name), Mode: ownMode}
		file := Path{Kind: OwnFile, Path: filepath.Join(dir.Path, run.MessageFile), Mode: messageMode}
		out, paths = append(out, fileMount(file.Path, absolute(c.TerminationMessagePath), node)), append(paths, dir, file)
	}
	return out, paths, nil
}

func fileMount(host, container string, node *Node) *runtimeapi.Mount {
	return &runtimeapi.Mount{HostPath: host, ContainerPath: container, SelinuxRelabel: node.SELinux}
}

// volumeMount returns the mount of one volume and what it needs on the host. A
// volume without a source is an emptyDir, the API's default.
func volumeMount(pod *corev1.Pod, v *corev1.Volume, vm *corev1.VolumeMount, node *Node) (*runtimeapi.Mount, Path) {
	m := &runtimeapi.Mount{
		ContainerPath: absolute(vm.MountPath),
		Readonly:      vm.ReadOnly,
		Propagation:   propagation(vm.MountPropagation),
	}
	if h := v.HostPath; h != nil {
		m.HostPath = h.Path
		p := Path{Kind: UserPath, Path: h.Path, Volume: v.Name}
		if h.Type != nil {
			p.Type = *h.Type
		}
		return m, p
	}
	m.HostPath = emptyDirPath(pod, node, v.Name)
	m.SelinuxRelabel = node.SELinux
	mode := fs.FileMode(emptyDirMode)
	if v.EmptyDir != nil && v.EmptyDir.Mode != nil {
		mode = unixMode(*v.EmptyDir.Mode)
	}
	return m, Path{Kind: OwnDir, Path: m.HostPath, Mode: mode}
}

// unixMode turns the mode bits of chmod(2), including the sticky bit, into Go's.
func unixMode(bits int32) fs.FileMode {
	const sticky = 0o1000
	mode := fs.FileMode(bits) & fs.ModePerm
	if bits&sticky != 0 {
		mode |= fs.ModeSticky
	}
	return mode
}

func absolute(p string) string {
	if path.IsAbs(p) {
		return p
	}
	return "/" + p
}

func propagation(mode *corev1.MountPropagationMode) runtimeapi.MountPropagation {
	if mode == nil {
		return runtimeapi.MountPropagation_PROPAGATION_PRIVATE
	}
	switch *mode {
	case corev1.MountPropagationHostToContainer:
		return runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER
	case corev1.MountPropagationBidirectional:
		return runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL
	case corev1.MountPropagationNone:
	}
	return runtimeapi.MountPropagation_PROPAGATION_PRIVATE
}
