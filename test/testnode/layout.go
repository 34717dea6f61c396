package testnode

import "path/filepath"

// layout is where an environment's things are. Everything follows from the name
// and the folder, so that a later program can remove what an earlier one made.
type layout struct {
	name string // Unique on this machine, for example "demo-3f1c".
	dir  string // The environment's folder.
}

// namespace is the file that holds the node's network namespace.
func (l layout) namespace() string { return filepath.Join(l.dir, "netns") }

// mountNamespace is the file that holds an isolated node's mount namespace.
func (l layout) mountNamespace() string { return filepath.Join(l.dir, "pins", "mnt") }

// cgroup is the path of the node's control group below each hierarchy's root.
func (l layout) cgroup() string { return "/nodekit-" + l.name }

// socket is the containerd socket.
func (l layout) socket() string { return filepath.Join(l.dir, "containerd.sock") }

// network is the name in the CNI configuration; files of the CNI library and of
// its address plugin carry it.
func (l layout) network() string { return "nodekit-" + l.name }

func (l layout) path(elem ...string) string {
	return filepath.Join(append([]string{l.dir}, elem...)...)
}
