package podspec

import (
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// Cgroups says where the node's pods are in the cgroup tree. The zero value is
// the kubelet's tree at the root, named for the cgroupfs driver.
type Cgroups struct {
	// Root is the parent of the tree of pods, a path; empty: "/".
	Root string
	// Systemd names slices instead of directories, for runtimes with the systemd
	// cgroup driver.
	Systemd bool
}

// Parent returns the cgroup of a pod, as the runtime's cgroup driver names it: a
// path such as /kubepods/burstable/pod<uid>, or the name of a slice.
func (c Cgroups) Parent(uid types.UID, class corev1.PodQOSClass) string {
	parts := append(strings.FieldsFunc(c.Root, func(r rune) bool { return r == '/' }), "kubepods")
	switch class {
	case corev1.PodQOSBurstable:
		parts = append(parts, "burstable")
	case corev1.PodQOSBestEffort:
		parts = append(parts, "besteffort")
	case corev1.PodQOSGuaranteed:
	}
	parts = append(parts, "pod"+string(uid))
	if !c.Systemd {
		return "/" + path.Join(parts...)
	}
	for i := range parts {
		parts[i] = strings.ReplaceAll(parts[i], "-", "_")
	}
	return strings.Join(parts, "-") + ".slice"
}

// Path returns the cgroup of a pod as a path below the mount of a hierarchy,
// whichever driver made it.
func (c Cgroups) Path(uid types.UID, class corev1.PodQOSClass) string {
	parent := c.Parent(uid, class)
	if !c.Systemd {
		return parent
	}
	// A slice a-b-c.slice is the directory a.slice/a-b.slice/a-b-c.slice
	// (https://www.freedesktop.org/software/systemd/man/systemd.slice.html).
	full := "/"
	name := strings.TrimSuffix(parent, ".slice")
	for i, r := range name {
		if r == '-' {
			full = path.Join(full, name[:i]+".slice")
		}
	}
	return path.Join(full, parent)
}

// parentOf is the cgroup of a pod of this node.
func (n *Node) parentOf(pod *corev1.Pod) string {
	return n.Cgroups.Parent(pod.UID, podstatus.QOSClass(pod))
}
