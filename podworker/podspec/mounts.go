package podspec

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Modes of what is mounted into containers.
const (
	hostsMode   = 0o644
	messageMode = 0o666
)

// mounter collects the mounts of one container and what they need on the host.
type mounter struct {
	pod   *corev1.Pod
	c     *corev1.Container
	node  *Node
	run   *Run
	env   *environment
	list  []*runtimeapi.Mount
	paths []Path
}

// all collects the volumes of the container in order, then the hosts file and the
// file for the termination message.
func (m *mounter) all() error {
	ownsHosts := false
	for i := range m.c.VolumeMounts {
		mount, err := m.volume(i)
		if err != nil {
			return err
		}
		ownsHosts = ownsHosts || mount.ContainerPath == hostsPath
		m.add(mount)
	}
	if !ownsHosts && (len(m.run.PodIPs) > 0 || m.pod.Spec.HostNetwork) {
		m.file(Path{
			Path: filepath.Join(m.node.PodDir(m.pod.UID), "etc-hosts"), Mode: hostsMode, Content: hosts(m.pod, m.node, m.run.PodIPs),
		}, hostsPath)
	}
	if m.run.MessageFile != "" && m.c.TerminationMessagePath != "" {
		dir := Path{Kind: OwnDir, Path: MessageDir(m.pod, m.node, m.c.Name), Mode: ownMode}
		m.paths = append(m.paths, dir)
		m.file(Path{Path: filepath.Join(dir.Path, m.run.MessageFile), Mode: messageMode}, absolute(m.c.TerminationMessagePath))
	}
	return nil
}

// add takes a mount, with the users of the pod.
func (m *mounter) add(mount *runtimeapi.Mount) {
	mount.UidMappings = m.run.Grant.Users.mappings()
	mount.GidMappings = m.run.Grant.Users.mappings()
	m.list = append(m.list, mount)
}

// file takes a file of the agent.
func (m *mounter) file(p Path, at string) {
	p.Kind = OwnFile
	m.paths = append(m.paths, p)
	m.add(&runtimeapi.Mount{HostPath: p.Path, ContainerPath: at, SelinuxRelabel: m.node.SELinux})
}

// volume returns the mount of the i-th volume mount of the container.
func (m *mounter) volume(i int) (*runtimeapi.Mount, error) {
	vm := &m.c.VolumeMounts[i]
	v, err := volume(m.pod, vm.Name)
	if err != nil {
		return nil, err
	}
	sub, err := subPath(vm, m.env)
	if err != nil {
		return nil, err
	}
	recursive, err := recursiveReadOnly(vm, m.run.Grant.Handler)
	if err != nil {
		return nil, fmt.Errorf("failed to resolve recursive read-only mode: %w", err)
	}
	mount := &runtimeapi.Mount{
		ContainerPath:     absolute(vm.MountPath),
		Readonly:          vm.ReadOnly,
		RecursiveReadOnly: recursive,
		Propagation:       propagation(vm.MountPropagation),
	}
	if v.Image != nil {
		return m.image(mount, v, sub)
	}
	base, ready := m.run.Volumes[v.Name]
	if !ready {
		return nil, fmt.Errorf("volume mount %s: the volume is not set up", v.Name)
	}
	mount.HostPath, mount.SelinuxRelabel = base.Path, m.node.SELinux && base.Relabel
	mount.Readonly = mount.Readonly || base.ReadOnly
	if sub != "" {
		target := Path{
			Kind: SubPath, Path: filepath.Join(SubPathDir(m.node, m.pod.UID), v.Name, m.c.Name, strconv.Itoa(i)),
			Volume: v.Name, Base: base.Path, Sub: sub,
		}
		m.paths = append(m.paths, target)
		mount.HostPath = target.Path
	}
	return mount, nil
}

// image makes a mount one of an image, which the runtime mounts itself, read-only.
func (m *mounter) image(mount *runtimeapi.Mount, v *corev1.Volume, sub string) (*runtimeapi.Mount, error) {
	ref, ok := m.run.Images[v.Name]
	if !ok {
		return nil, fmt.Errorf("volume mount %s: the image of the volume is not on the node", v.Name)
	}
	mount.Image = &runtimeapi.ImageSpec{Image: ref, UserSpecifiedImage: v.Image.Reference}
	mount.ImageSubPath = sub
	mount.Readonly = true
	return mount, nil
}

// subPath returns the path of a volume mount below its volume, empty for the volume
// as a whole.
func subPath(vm *corev1.VolumeMount, env *environment) (string, error) {
	sub := vm.SubPath
	if vm.SubPathExpr != "" {
		var missing []string
		sub = Expand(vm.SubPathExpr, func(name string) (string, bool) {
			value, ok := env.look(name)
			if !ok {
				missing = append(missing, name)
			}
			return value, ok
		})
		if len(missing) > 0 {
			return "", fmt.Errorf("subPathExpr %q of volume mount %s: missing value for %q", vm.SubPathExpr, vm.Name, missing)
		}
	}
	switch {
	case path.IsAbs(sub):
		return "", fmt.Errorf("error SubPath `%s` must not be an absolute path", sub)
	case slices.Contains(strings.Split(sub, "/"), ".."):
		return "", fmt.Errorf("unable to provision SubPath `%s`: must not contain '..'", sub)
	}
	return sub, nil
}

// recursiveReadOnly reports whether mounts below a mount have to be read-only, too
// (https://kubernetes.io/docs/concepts/storage/volumes/#recursive-read-only-mounts).
func recursiveReadOnly(vm *corev1.VolumeMount, handler Handler) (bool, error) {
	mode := corev1.RecursiveReadOnlyDisabled
	if vm.RecursiveReadOnly != nil {
		mode = *vm.RecursiveReadOnly
	}
	switch {
	case mode == corev1.RecursiveReadOnlyDisabled:
		return false, nil
	case !vm.ReadOnly:
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not read-only", vm.Name)
	case vm.MountPropagation != nil && *vm.MountPropagation != corev1.MountPropagationNone:
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not compatible with propagation %q", vm.Name, *vm.MountPropagation)
	case mode == corev1.RecursiveReadOnlyEnabled && !handler.RecursiveReadOnly:
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not supported by the runtime", vm.Name)
	}
	return handler.RecursiveReadOnly, nil
}

// isEmptyDir reports whether a volume is an emptyDir, the API's default for a volume
// without a source.
func isEmptyDir(v *corev1.Volume) bool {
	return v.EmptyDir != nil || v.VolumeSource == (corev1.VolumeSource{})
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

// devices returns the block devices of a container.
func devices(c *corev1.Container, run *Run) ([]*runtimeapi.Device, error) {
	var list []*runtimeapi.Device
	for i := range c.VolumeDevices {
		d := &c.VolumeDevices[i]
		v, ready := run.Volumes[d.Name]
		if !ready || !v.Block {
			return nil, fmt.Errorf("volume device %s: the volume is not set up as a block device", d.Name)
		}
		permissions := "mrw"
		if v.ReadOnly {
			permissions = "r"
		}
		list = append(list, &runtimeapi.Device{ContainerPath: d.DevicePath, HostPath: v.Path, Permissions: permissions})
	}
	return list, nil
}
