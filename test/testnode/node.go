package testnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Config says how a node is called and whom it tells what it does.
type Config struct {
	// Name starts the node's name, which a random suffix makes unique on this
	// machine. Letters and digits. Empty means "node".
	Name string
	// Logs is the folder for the logs of all programs on the node. It is made when
	// it does not exist, and it stays when the node goes. Required.
	Logs string
	// Containerd is the folder of containerd, its shim and ctr. Empty means those of
	// the distribution. See [ToolFolder].
	Containerd string
	// Bare leaves the runtime out: the node is a place for programs.
	Bare bool
	// Adopt is the socket of a runtime that somebody else runs. The node takes over the
	// network and mount namespaces of that process, and makes no CNI configuration. Its
	// end leaves the runtime alone, save the pods that were made meanwhile. Empty means
	// a runtime of the node's own.
	Adopt string
	// Isolated gives the programs on the node /run, /var/lib and /var/log of their
	// own, so that what they keep at fixed paths is neither shared with another node
	// nor left on this machine. See [Node.Private].
	Isolated bool
	// Network sets up the node's network namespace, of which only the loopback device
	// is up. Nil gives it an uplink that leads nowhere, with [NodeIPv4].
	Network func(context.Context, *Node) error
	// Plugins returns the chain of the CNI configuration. Nil means a routed link per
	// pod, with addresses from [PodIPv4Range].
	Plugins func(*Node) []map[string]any
	// Progress receives a line per slow step. Nil means silence.
	Progress func(string)
}

// Node is a private node. [Start] makes one.
type Node struct {
	lay         layout
	cfg         Config // Logs is an absolute path.
	mounts      string // The file with the mount namespace; empty for that of this program.
	snapshotter string
	lock        *os.File // Held while the node is in use.
	cri         *CRI
	containerd  *Process
	processes   sync.WaitGroup // One goroutine per process, until it ended.
	atEnd       sync.Mutex     // Held while the file of that name changes.
}

// Start removes what earlier, killed programs left, and makes a node with a
// running containerd. The caller must end it with [Node.Stop] or [Node.Keep].
// It needs root and the packages that [Missing] names; see [Install].
func Start(ctx context.Context, cfg Config) (*Node, error) {
	if cfg.Name == "" {
		cfg.Name = "node"
	}
	if cfg.Progress == nil {
		cfg.Progress = func(string) {}
	}
	if err := checkHost(cfg); err != nil {
		return nil, err
	}
	stale, err := Clean(ctx, KeptStay)
	if err != nil {
		return nil, err
	}
	for _, name := range stale {
		cfg.Progress("removed what a killed run left: " + name)
	}
	n, err := newNode(cfg)
	if err != nil {
		return nil, err
	}
	if err := n.boot(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start test node %s: %w", n.Name(), err), n.Stop(ctx))
	}
	return n, nil
}

func checkHost(cfg Config) error {
	if cfg.Logs == "" {
		return errors.New("start test node: Config.Logs is empty")
	}
	if os.Geteuid() != 0 {
		return errors.New("start test node: this needs root (network namespaces, mounts, control groups)")
	}
	if missing := Missing(); len(missing) > 0 {
		return fmt.Errorf("start test node: packages are missing: %v", missing)
	}
	return nil
}

func newNode(cfg Config) (*Node, error) {
	logs, err := filepath.Abs(cfg.Logs)
	if err == nil {
		err = os.MkdirAll(logs, 0o755)
	}
	if err != nil {
		return nil, fmt.Errorf("make folder of logs: %w", err)
	}
	lay, lock, err := claim(baseDir, cfg.Name)
	if err != nil {
		return nil, err
	}
	cfg.Logs = logs
	return &Node{lay: lay, cfg: cfg, lock: lock}, nil
}

func (n *Node) boot(ctx context.Context) error {
	for _, dir := range []string{n.Manifests(), n.Services(), n.PodLogs()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
	}
	var err error
	if n.snapshotter, err = snapshotterFor(n.lay.dir); err != nil {
		return err
	}
	if err := n.lay.makeCgroups(); err != nil {
		return err
	}
	if err := n.makeNamespaces(ctx); err != nil {
		return err
	}
	network := n.cfg.Network
	if network == nil {
		network = leadNowhere
	}
	if err := network(ctx, n); err != nil {
		return fmt.Errorf("set up network namespace: %w", err)
	}
	switch {
	case n.cfg.Bare:
		return nil
	case n.cfg.Adopt != "":
		return n.awaitRuntime(ctx)
	}
	return n.bootContainerd(ctx)
}

// makeNamespaces makes the node's namespaces, or adopts those of a runtime.
func (n *Node) makeNamespaces(ctx context.Context) error {
	if n.cfg.Adopt != "" {
		return n.adopt(ctx)
	}
	if err := n.lay.makeNamespace(ctx); err != nil {
		return err
	}
	if !n.cfg.Isolated {
		return nil
	}
	n.mounts = n.lay.mountNamespace()
	return n.lay.isolate(ctx)
}

// Stop ends everything that runs on the node and removes everything it made,
// save the logs. It works after ctx has ended too, so that an interrupted program
// can clean up, and takes at most a minute.
func (n *Node) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var errs []error
	if n.cri != nil {
		errs = append(errs, n.cri.conn.Close())
	}
	guard, err := lockBase(baseDir)
	if err != nil {
		return err
	}
	defer guard.Close()
	if err := n.lay.destroy(ctx); err != nil {
		errs = append(errs, fmt.Errorf("stop test node %s: %w", n.Name(), err))
	} else {
		n.processes.Wait()
	}
	errs = append(errs, n.lock.Close())
	removeIfEmpty(baseDir)
	return errors.Join(errs...)
}

// Keep leaves the node running when our program ends. [Clean] with [KeptToo]
// removes it later.
func (n *Node) Keep() error {
	if err := os.WriteFile(n.lay.path(keepFile), nil, 0o600); err != nil {
		return fmt.Errorf("keep test node %s: %w", n.Name(), err)
	}
	if n.cri != nil {
		n.cri.conn.Close()
	}
	return n.lock.Close()
}

// Name returns the node's name, unique on this machine.
func (n *Node) Name() string { return n.lay.name }

// CRI returns a plain connection to the node's containerd, nil on a bare node.
func (n *Node) CRI() *CRI { return n.cri }

// Socket returns the path of the runtime's socket.
func (n *Node) Socket() string {
	if n.cfg.Adopt != "" {
		return n.cfg.Adopt
	}
	return n.lay.socket()
}

// Namespace returns the path of the node's network namespace, for nsenter --net.
func (n *Node) Namespace() string { return n.lay.namespace() }

// CgroupRoot returns the node's control group, relative to each hierarchy's root.
func (n *Node) CgroupRoot() string { return n.lay.cgroup() }

// Dir returns a path in the node's folder, which goes when the node goes.
func (n *Node) Dir(elem ...string) string { return n.lay.path(elem...) }

// Manifests returns the kubelet's folder of pod manifests.
func (n *Node) Manifests() string { return n.lay.path("manifests") }

// Services returns kube-proxy's folder of Service and EndpointSlice manifests.
func (n *Node) Services() string { return n.lay.path("services") }

// PodLogs returns the folder of the containers' logs.
func (n *Node) PodLogs() string { return n.lay.path("pod-logs") }

// KubeletRoot returns the kubelet's root folder.
func (n *Node) KubeletRoot() string { return n.lay.path("kubelet") }

// Logs returns the folder with the logs of the programs on the node.
func (n *Node) Logs() string { return n.cfg.Logs }
