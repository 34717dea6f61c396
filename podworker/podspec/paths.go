package podspec

import (
	"io/fs"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
)

// PathKind says what has to be at a [Path].
type PathKind uint8

// The kinds of paths a configuration relies on.
const (
	// OwnDir is a directory of the agent: made with its parents.
	OwnDir PathKind = iota
	// OwnFile is a file of the agent: written anew with Content.
	OwnFile
	// UserPath belongs to the user: Type says what is checked or made.
	UserPath
)

// String returns the kind in lower case.
func (k PathKind) String() string {
	switch k {
	case OwnDir:
		return "own directory"
	case OwnFile:
		return "own file"
	case UserPath:
		return "user path"
	}
	return "invalid"
}

// Path is a wish: something that has to be on the host before the configuration it
// came with is used. Wishes are in the order in which to fulfil them.
type Path struct {
	// Kind says what has to be there.
	Kind PathKind
	// Path is absolute.
	Path string
	// Mode are the permission bits, whatever the umask, of what is made.
	Mode fs.FileMode
	// Content is what an OwnFile holds.
	Content []byte
	// Volume is the volume of the pod that a UserPath is.
	Volume string
	// Type is the type of a UserPath; empty: nothing is checked.
	Type corev1.HostPathType
}

// emptyDirPath returns where an emptyDir volume of a pod is kept.
func emptyDirPath(pod *corev1.Pod, node *Node, volume string) string {
	return filepath.Join(node.PodDir(pod.UID), "volumes", "kubernetes.io~empty-dir", volume)
}

// MessageDir returns the directory of the termination messages of a container.
func MessageDir(pod *corev1.Pod, node *Node, container string) string {
	return filepath.Join(node.PodDir(pod.UID), "containers", container)
}
