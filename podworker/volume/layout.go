package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// DefaultRoot is the directory of the kubelet.
const DefaultRoot = "/var/lib/kubelet"

// The names of plugins in paths, where ~ stands for /. They are the kubelet's.
const (
	emptyDirPlugin    = "kubernetes.io~empty-dir"
	configMapPlugin   = "kubernetes.io~configmap"
	secretPlugin      = "kubernetes.io~secret"
	downwardAPIPlugin = "kubernetes.io~downward-api"
	projectedPlugin   = "kubernetes.io~projected"
)

// wrappedPrefix goes before the name of a volume that stands in an emptyDir of its own,
// where it is about that emptyDir.
const wrappedPrefix = "wrapped_"

// isOwn reports whether the directories of a plugin are the manager's.
func isOwn(plugin string) bool {
	switch plugin {
	case emptyDirPlugin, configMapPlugin, secretPlugin, downwardAPIPlugin, projectedPlugin:
		return true
	}
	return false
}

// layout is where the volumes of pods are, below a root.
type layout string

func (l layout) pods() string                  { return filepath.Join(string(l), "pods") }
func (l layout) pod(uid types.UID) string      { return filepath.Join(l.pods(), string(uid)) }
func (l layout) volumes(uid types.UID) string  { return filepath.Join(l.pod(uid), "volumes") }
func (l layout) subPaths(uid types.UID) string { return filepath.Join(l.pod(uid), "volume-subpaths") }

// volume returns the directory of one volume.
func (l layout) volume(uid types.UID, plugin, name string) string {
	return filepath.Join(l.volumes(uid), plugin, name)
}

// meta returns the directory with what is known of an emptyDir.
func (l layout) meta(uid types.UID, name string) string {
	return filepath.Join(l.pod(uid), "plugins", emptyDirPlugin, name)
}

// diskVolume is a volume that is on disk.
type diskVolume struct{ plugin, name string }

// onDisk returns the volumes of a pod that are on disk, of all plugins.
func (l layout) onDisk(uid types.UID) ([]diskVolume, error) {
	plugins, err := names(l.volumes(uid))
	if err != nil {
		return nil, err
	}
	var out []diskVolume
	for _, plugin := range plugins {
		volumes, err := names(filepath.Join(l.volumes(uid), plugin))
		if err != nil {
			return nil, err
		}
		for _, name := range volumes {
			out = append(out, diskVolume{plugin, name})
		}
	}
	return out, nil
}

// names returns what is in a directory; nothing if there is none.
func names(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, unlessMissing(err)
	}
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = e.Name()
	}
	return out, nil
}

func unlessMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// isElement reports whether a UID or a name from elsewhere names a directory of its own.
func isElement[T ~string](name T) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(string(name), "/\x00")
}

// mountedVolumes returns the volumes of a pod that its containers mount, without images:
// the runtime mounts them.
func mountedVolumes(pod *corev1.Pod) ([]*corev1.Volume, error) {
	if !isElement(pod.UID) {
		return nil, fmt.Errorf("UID %q of the pod cannot name a directory", pod.UID)
	}
	used := map[string]bool{}
	visitContainers(pod, func(c *corev1.Container) {
		for i := range c.VolumeMounts {
			used[c.VolumeMounts[i].Name] = true
		}
		for i := range c.VolumeDevices {
			used[c.VolumeDevices[i].Name] = true
		}
	})
	var out []*corev1.Volume
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		switch {
		case !isElement(v.Name):
			return nil, fmt.Errorf("name %q of a volume cannot name a directory", v.Name)
		case used[v.Name] && v.Image == nil:
			out = append(out, v)
		}
	}
	return out, nil
}

// visitContainers calls visit with each container of a pod, of all kinds.
func visitContainers(pod *corev1.Pod, visit func(c *corev1.Container)) {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			visit(&list[i])
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		c := corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		visit(&c)
	}
}
