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
	// Volume is the volume of the pod that a SubPath is part of.
	Volume string
	// Base is the directory of the volume a SubPath is part of, and Sub the path below
	// it: relative and without "..".
	Base, Sub string
}

// SubPathDir returns the directory of all that is bound for the sub-paths of a pod.
func SubPathDir(node *Node, uid types.UID) string {
	return filepath.Join(node.PodDir(uid), "volume-subpaths")
}

// MessageDir returns the directory of the termination messages of a container.
func MessageDir(pod *corev1.Pod, node *Node, container string) string {
	return filepath.Join(node.PodDir(pod.UID), "containers", container)
}
