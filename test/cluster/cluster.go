package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nodekit-go/nodekit/test/testnode"
)

// Config says what a cluster is made of. With the zero value, and a folder for the
// logs, it is a control plane without nodes.
type Config struct {
	// Name starts the cluster's name, which a random suffix makes unique on this
	// machine. Letters and digits. Empty means "cluster".
	Name string
	// Logs is the folder for the logs of all programs: those of the control plane in
	// itself, those of a node in a folder called like the node. It is made when it
	// does not exist, and it stays when the cluster goes. Required.
	Logs string
	// Nodes is how many nodes there are from the start.
	Nodes int
	// Node is what these nodes are made of.
	Node NodeConfig
	// Images are archives of images, as "docker save" writes them, that every node
	// gets besides the pods' sandbox and CoreDNS.
	Images []string
	// SignedFor is how long certificates last that the cluster signs for its nodes. Zero
	// means a year.
	SignedFor time.Duration
	// NoWait lets [Start] return when all programs run, without waiting until the
	// nodes are ready and CoreDNS answers: for node programs that do not come so far.
	NoWait bool
	// NoDNS leaves CoreDNS out: for nodes that cannot run it, where its Deployment would
	// make one pod after the other.
	NoDNS bool
	// Progress receives a line per step. Nil means silence.
	Progress func(string)
}

// Cluster is a running cluster. [Start] makes one.
type Cluster struct {
	cfg      Config
	plane    *testnode.Node
	ca       *authority
	front    *authority // Signs for the API server as a front of other API servers.
	binaries *binaries
	admin    string // A kubeconfig.
	api      *apiClient
	programs controlPlane

	mu    sync.Mutex // Guards nodes and next, and what of a node changes.
	nodes []*Node
	next  int // The index of the next node.

	stop func(context.Context) error
}

// Start makes a cluster. It first removes what killed programs left. The caller must
// end it with [Cluster.Stop] or [Cluster.Keep]. It needs root and the packages that
// [Prepare] installs.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	if cfg.Name == "" {
		cfg.Name = "cluster"
	}
	if cfg.Progress == nil {
		cfg.Progress = func(string) {}
	}
	if cfg.Nodes > 1 && cfg.Node.Runtime.socket() != "" {
		return nil, fmt.Errorf("start cluster: the runtime at %s is one node's, not %d nodes'", cfg.Node.Runtime, cfg.Nodes)
	}
	plane, err := testnode.Start(ctx, testnode.Config{
		Name: cfg.Name, Logs: cfg.Logs, Bare: true, Network: makeHub, Progress: cfg.Progress,
	})
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		cfg: cfg, plane: plane,
		binaries: &binaries{dir: plane.Dir("bin"), paths: map[string]string{}},
		admin:    plane.Dir("admin.kubeconfig"),
	}
	c.stop = once(c.destroy)
	if err := c.boot(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start cluster %s: %w", c.Name(), err), c.Stop(ctx))
	}
	return c, nil
}

// boot brings the control plane up while the nodes' runtimes start.
func (c *Cluster) boot(ctx context.Context) error {
	c.cfg.Progress("cluster " + c.Name() + " in " + c.plane.Dir())
	if err := c.writeCredentials(); err != nil {
		return err
	}
	var err error
	if c.api, err = c.newAPIClient(); err != nil {
		return err
	}
	c.programs = c.newControlPlane()
	group, groupCtx := errgroup.WithContext(ctx)
	served := make(chan struct{})
	group.Go(func() error {
		defer close(served)
		return c.startControlPlane(groupCtx)
	})
	for range c.cfg.Nodes {
		group.Go(func() error {
			n, err := c.makeNode(groupCtx, c.cfg.Node)
			if err != nil {
				return err
			}
			select {
			case <-served:
			case <-groupCtx.Done():
				return groupCtx.Err()
			}
			return n.boot(groupCtx)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if c.cfg.NoWait || c.cfg.NoDNS || c.cfg.Nodes == 0 {
		return nil
	}
	return c.WaitDNS(ctx)
}

// Stop ends all programs and removes everything the cluster made, save the logs. It
// works after ctx has ended too, and takes at most a minute per node. A second call
// does nothing and returns what the first returned.
func (c *Cluster) Stop(ctx context.Context) error { return c.stop(ctx) }

func (c *Cluster) destroy(ctx context.Context) error {
	var errs []error
	for _, place := range c.places() {
		errs = append(errs, place.Stop(ctx))
	}
	return errors.Join(errs...)
}

// once makes a function that runs f when it is called first, and returns then and
// later what f returned.
func once(f func(context.Context) error) func(context.Context) error {
	var (
		first sync.Once
		err   error
	)
	return func(ctx context.Context) error {
		first.Do(func() { err = f(ctx) })
		return err
	}
}

// Keep leaves the cluster running when our program ends. [testnode.Clean] with
// [testnode.KeptToo] removes it later.
func (c *Cluster) Keep() error {
	var errs []error
	for _, place := range c.places() {
		errs = append(errs, place.Keep())
	}
	return errors.Join(errs...)
}

// Name returns the cluster's name, unique on this machine.
func (c *Cluster) Name() string { return c.plane.Name() }

// Environments returns the names under which [testnode.Leftovers] knows the cluster's
// parts: the control plane and the nodes.
func (c *Cluster) Environments() []string {
	var names []string
	for _, place := range slices.Backward(c.places()) {
		names = append(names, place.Name())
	}
	return names
}

// places returns the places of the cluster's parts: the nodes, and then the control plane
// unless it is on one of them.
func (c *Cluster) places() []*testnode.Node {
	var places []*testnode.Node
	for _, n := range c.Nodes() {
		places = append(places, n.Node)
	}
	if !slices.Contains(places, c.plane) {
		places = append(places, c.plane)
	}
	return places
}

// Plane returns the place of the control plane, which is where a client of the
// cluster runs: it reaches the API server, the nodes and their pods, but no virtual
// addresses of Services.
func (c *Cluster) Plane() *testnode.Node { return c.plane }

// Kubeconfig returns the file with the credentials of an administrator, for tests and
// people. No part of a node uses it.
func (c *Cluster) Kubeconfig() string { return c.admin }

// Nodes returns the nodes, those that were added first in front.
func (c *Cluster) Nodes() []*Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.nodes)
}

// Node returns a node by its place in [Cluster.Nodes].
func (c *Cluster) Node(i int) *Node { return c.Nodes()[i] }

// AddNode adds a node and waits until it is ready, unless [Config.NoWait] is set. A
// node that does not become ready is returned with the error, and stays until
// [Cluster.Stop].
func (c *Cluster) AddNode(ctx context.Context, cfg NodeConfig) (*Node, error) {
	n, err := c.makeNode(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return n, n.boot(ctx)
}

// logs returns the folder of a node's logs.
func (c *Cluster) logs(node string) string { return filepath.Join(c.cfg.Logs, node) }
