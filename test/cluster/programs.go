package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/nodekit-go/nodekit/test/testnode"
)

// Source says where a node program comes from: [Stock], [Ours], [None], or the absolute
// path of a program.
type Source string

const (
	// Stock is the program that Kubernetes releases. So is the empty value.
	Stock Source = "stock"
	// Ours is the program of this repository, compiled from the working tree.
	Ours Source = "ours"
	// None leaves the program out.
	None Source = "none"
)

// String returns the value as [ParseSource] reads it.
func (s Source) String() string {
	if s == "" {
		return string(Stock)
	}
	return string(s)
}

// ParseSource reads "stock", "ours", "none" or the path of a program.
func ParseSource(text string) (Source, error) {
	switch s := Source(text); {
	case s == Stock, s == Ours, s == None, filepath.IsAbs(text):
		return s, nil
	}
	return "", fmt.Errorf("%q: must be stock, ours, none or the path of a program", text)
}

// Runtime is a node's container runtime: [Containerd], [Containerd2], or the absolute
// path of the socket of a runtime that somebody else runs. The node then lives in the
// namespaces of that runtime, whose pods must have a network, and which must know the
// images unless it is containerd; a network namespace of its own keeps kube-proxy's
// rules from the machine.
type Runtime string

const (
	// Containerd is the distribution's containerd (1.6 on Debian 12) and runc. So is the
	// empty value.
	Containerd Runtime = "containerd"
	// Containerd2 is a current containerd and runc.
	Containerd2 Runtime = "containerd2"
)

// ParseRuntime reads "containerd", "containerd2" or the path of a socket.
func ParseRuntime(text string) (Runtime, error) {
	switch r := Runtime(text); {
	case r == Containerd, r == Containerd2, r.socket() != "":
		return r, nil
	}
	return "", fmt.Errorf("%q: must be containerd, containerd2 or the path of a socket", text)
}

// socket is where the runtime of somebody else listens.
func (r Runtime) socket() string {
	path := strings.TrimPrefix(string(r), "unix://")
	if filepath.IsAbs(path) {
		return path
	}
	return ""
}

const (
	kubernetesTools = "test/tools/kubernetes"
	otherTools      = "test/tools"
)

// binaries finds the programs, each one when it is asked for the first time.
type binaries struct {
	dir string // Where what is compiled or linked goes.

	mu    sync.Mutex // Guards paths, and is held while a program is built.
	paths map[string]string
}

// kubernetes returns the path of a program that Kubernetes releases.
func (b *binaries) kubernetes(ctx context.Context, name string) (string, error) {
	return b.once(name, func() (string, error) { return testnode.ToolOf(ctx, name, kubernetesTools) })
}

// node returns the path of the kubelet or kube-proxy of a source, where a node sees it.
func (b *binaries) node(ctx context.Context, n *Node, name string, source Source) (string, error) {
	switch source {
	case Stock, "":
		return b.kubernetes(ctx, name)
	case Ours:
	default:
		return string(source), nil
	}
	built, err := b.once("examples/"+name, func() (string, error) {
		return testnode.Build(ctx, filepath.Join(b.dir, string(Ours)), "examples/"+name)
	})
	if err != nil {
		return "", err
	}
	path := n.Dir(name)
	if err := os.Link(built, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("give %s to %s: %w", name, n.name, err)
	}
	return path, nil
}

// runtime returns the folder with the programs of a runtime, empty for those of the
// distribution.
func (b *binaries) runtime(ctx context.Context, runtime Runtime) (string, error) {
	if runtime != Containerd2 {
		return "", nil
	}
	return b.once(string(runtime), func() (string, error) {
		dir := filepath.Join(b.dir, string(runtime))
		return dir, testnode.ToolFolder(ctx, dir, "containerd", "containerd-shim-runc-v2", "ctr", "runc")
	})
}

func (b *binaries) once(key string, find func() (string, error)) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if path, ok := b.paths[key]; ok {
		return path, nil
	}
	path, err := find()
	if err == nil {
		b.paths[key] = path
	}
	return path, err
}
