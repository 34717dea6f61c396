//go:build linux

package cgroups

import (
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// classes are those with a group; Guaranteed pods are in kubepods itself.
//
//nolint:gochecknoglobals // a constant table
var classes = []corev1.PodQOSClass{corev1.PodQOSGuaranteed, corev1.PodQOSBurstable, corev1.PodQOSBestEffort}

// namer knows where groups are, as a path below the mount of each hierarchy.
type namer struct {
	// root is the parent of kubepods, a path.
	root string
	// slices has groups named as systemd does.
	slices bool
}

// group returns the group of a class.
func (n namer) group(class corev1.PodQOSClass) string { return n.path(parts(class)...) }

// pod returns the group of a pod of a class.
func (n namer) pod(class corev1.PodQOSClass, uid types.UID) string {
	return n.path(append(parts(class), podPrefix+string(uid))...)
}

// podPrefix goes before the UID in the name of a pod's group.
const podPrefix = "pod"

// parts are the names of the group of a class and of those above it, below the root.
func parts(class corev1.PodQOSClass) []string {
	switch class {
	case corev1.PodQOSBurstable:
		return []string{"kubepods", "burstable"}
	case corev1.PodQOSBestEffort:
		return []string{"kubepods", "besteffort"}
	case corev1.PodQOSGuaranteed:
	}
	return []string{"kubepods"}
}

// path joins names below the root. Hyphens separate the names in that of a slice, so
// that those in a name become underscores.
func (n namer) path(names ...string) string {
	all := append(strings.FieldsFunc(n.root, func(r rune) bool { return r == '/' }), names...)
	if !n.slices {
		return "/" + path.Join(all...)
	}
	for i := range all {
		all[i] = strings.ReplaceAll(all[i], "-", "_")
	}
	return slicePath(strings.Join(all, "-"))
}

// sliceSuffix ends the names of slices.
const sliceSuffix = ".slice"

// slicePath returns where a slice is: a-b.slice is the directory a.slice/a-b.slice
// (systemd.slice(5)).
func slicePath(name string) string {
	at := "/"
	for i, r := range name {
		if r == '-' {
			at = path.Join(at, name[:i]+sliceSuffix)
		}
	}
	return path.Join(at, name+sliceSuffix)
}

// parent returns the slice that a slice is in; that of the root is "-.slice".
func parentSlice(name string) string {
	i := strings.LastIndexByte(strings.TrimSuffix(name, sliceSuffix), '-')
	if i < 0 {
		return "-" + sliceSuffix
	}
	return name[:i] + sliceSuffix
}

// others returns the group that others named in a configuration. With systemd, the last
// element of a path is the name of a slice, with or without its suffix.
func (n namer) others(group string) string {
	if !n.slices {
		return path.Join("/", group)
	}
	return slicePath(strings.TrimSuffix(path.Base(group), sliceSuffix))
}

// inRuntime returns a group as the runtime takes it for the parent of a container's: a
// path, or the name of a slice.
func (n namer) inRuntime(group string) string {
	if n.slices {
		return path.Base(group)
	}
	return group
}

// uid returns whose group a directory in that of a class is. Of a UID, systemd's names do
// not tell underscores and hyphens apart: it is taken to have hyphens, as UUIDs do.
func (n namer) uid(class corev1.PodQOSClass, dir string) (types.UID, bool) {
	prefix := podPrefix
	if n.slices {
		prefix = strings.TrimSuffix(path.Base(n.group(class)), sliceSuffix) + "-" + podPrefix
		name, isSlice := strings.CutSuffix(dir, sliceSuffix)
		if !isSlice {
			return "", false
		}
		dir = strings.ReplaceAll(name, "_", "-")
		prefix = strings.ReplaceAll(prefix, "_", "-")
	}
	uid, found := strings.CutPrefix(dir, prefix)
	return types.UID(uid), found && isElement(types.UID(uid))
}

// isElement reports whether a UID is the name of a directory of its own.
func isElement(uid types.UID) bool {
	return uid != "" && !strings.ContainsAny(string(uid), "/\x00")
}

// places returns where the group of a pod can be: its class is not known any more.
func (n namer) places(uid types.UID) []string {
	var out []string
	for _, class := range classes {
		out = append(out, n.pod(class, uid))
	}
	return out
}
