package podspec

import (
	"io/fs"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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
	// MemoryDir is a directory in memory: a tmpfs of at most Size bytes.
	MemoryDir
	// SubPath is what Sub names below Base, bound to Path without following links out
	// of Base. What does not exist is made a directory with the mode of Base.
	SubPath
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
	case MemoryDir:
		return "memory directory"
	case SubPath:
		return "sub-path"
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
	// Group owns what is made, and what is made in it later; nil: the agent's.
	Group *int64
	// Volume is the volume of the pod that a UserPath or MemoryDir is, or that a
	// SubPath is part of.
	Volume string
	// Type is the type of a UserPath; empty: nothing is checked.
	Type corev1.HostPathType
	// Size is the size of a MemoryDir in bytes; 0: half of the node's memory, the
	// kernel's default.
	Size int64
	// Base is the directory of the volume a SubPath is part of, and Sub the path below
	// it: relative and without "..".
	Base, Sub string
}

// SubPathDir returns the directory of all that is bound for the sub-paths of a pod.
func SubPathDir(node *Node, uid types.UID) string {
	return filepath.Join(node.PodDir(uid), "volume-subpaths")
}

// emptyDirPath returns where an emptyDir volume of a pod is kept.
func emptyDirPath(pod *corev1.Pod, node *Node, volume string) string {
	return filepath.Join(node.PodDir(pod.UID), "volumes", "kubernetes.io~empty-dir", volume)
}

// MessageDir returns the directory of the termination messages of a container.
func MessageDir(pod *corev1.Pod, node *Node, container string) string {
	return filepath.Join(node.PodDir(pod.UID), "containers", container)
}
