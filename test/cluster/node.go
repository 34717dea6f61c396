package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/test/images"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// NodeConfig says what a node is made of. The zero value is a node with stock
// programs on the distribution's containerd.
type NodeConfig struct {
	// Kubelet and Proxy say which kubelet and which kube-proxy run.
	Kubelet, Proxy Source
	// Backend is kube-proxy's mode. Empty means "nftables".
	Backend string
	// Runtime is the container runtime.
	Runtime Runtime
	// KubeletSettings are fields of KubeletConfiguration, by their JSON names, that
	// replace those the cluster chose.
	KubeletSettings map[string]any
	// KubeletFlags are given to the kubelet besides those that the cluster chose.
	KubeletFlags []string
	// ProxySettings are such fields of KubeProxyConfiguration.
	ProxySettings map[string]any
	// Connect is called once for each program of the node that talks to the API
	// server, before its first start, and returns the kubeconfig that the program is to
	// use: so a test can put something between. Nil means the program's own.
	Connect func(context.Context, Client) (kubeconfig string, err error)
}

// Client is a program of a node that talks to the API server.
type Client struct {
	// Node is where the program runs.
	Node *Node
	// Program is "kubelet" or "kube-proxy".
	Program string
	// Kubeconfig is the file with the address of the API server and the program's own
	// identity.
	Kubeconfig string
}

// Node is a node of a cluster: network and mount namespaces of its own, a container
// runtime, a kubelet, a kube-proxy.
type Node struct {
	*testnode.Node
	cluster *Cluster
	cfg     NodeConfig // cluster.mu guards Kubelet and Proxy.
	name    string
	index   int

	runtime, kubelet, proxy *Program
}

// NodeName returns the name of the Node object. [testnode.Node.Name] is that of the
// node's place on this machine.
func (n *Node) NodeName() string { return n.name }

// Address returns the node's address.
func (n *Node) Address() netip.Addr { return nodeAddress(n.index) }

// PodRange returns where the node's pods get their addresses.
func (n *Node) PodRange() netip.Prefix { return podRange(n.index) }

// Runtime returns the container runtime. That of somebody else can be neither started
// nor ended.
func (n *Node) Runtime() *Program { return n.runtime }

// Kubelet returns the kubelet.
func (n *Node) Kubelet() *Program { return n.kubelet }

// Proxy returns kube-proxy.
func (n *Node) Proxy() *Program { return n.proxy }

// UseKubelet makes the next start of the kubelet be that of another source.
func (n *Node) UseKubelet(source Source) {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	n.cfg.Kubelet = source
}

// UseProxy makes the next start of kube-proxy be that of another source.
func (n *Node) UseProxy(source Source) {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	n.cfg.Proxy = source
}

// sources returns where the kubelet and kube-proxy come from.
func (n *Node) sources() (kubelet, proxy Source) {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	return n.cfg.Kubelet, n.cfg.Proxy
}

// makeNode makes a node with a runtime that holds the images.
func (c *Cluster) makeNode(ctx context.Context, cfg NodeConfig) (*Node, error) {
	programs, err := c.binaries.runtime(ctx, cfg.Runtime)
	if err != nil {
		return nil, err
	}
	archive, err := images.Cluster(ctx, images.Config{Progress: c.cfg.Progress})
	if err != nil {
		return nil, err
	}
	n := c.claimNode(cfg)
	if n.index >= maxNodes {
		return nil, fmt.Errorf("add node %s: a cluster has room for %d", n.name, maxNodes)
	}
	join := joinAsNode
	if cfg.Runtime.socket() != "" {
		join = joinAdopted
	}
	n.Node, err = testnode.Start(ctx, testnode.Config{
		Name: fmt.Sprintf("%s-node%d", c.Name(), n.index), Logs: c.logs(n.name),
		Containerd: programs, Adopt: cfg.Runtime.socket(), Isolated: true,
		Network: func(ctx context.Context, node *testnode.Node) error { return join(ctx, c.plane, node, n.index) },
		Plugins: func(node *testnode.Node) []map[string]any { return podNetwork(node, n.index) },
	})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.nodes = append(c.nodes, n)
	slices.SortFunc(c.nodes, func(a, b *Node) int { return cmp.Compare(a.index, b.index) })
	c.mu.Unlock()
	n.runtime = n.runtimeProgram()
	for _, archive := range append([]string{archive}, c.cfg.Images...) {
		if err := n.ImportArchive(ctx, archive); err != nil {
			return nil, err
		}
	}
	c.cfg.Progress(n.name + ": runtime and images are ready")
	return n, c.writeNodeCredentials(n)
}

// claimNode gives a node its index.
func (c *Cluster) claimNode(cfg NodeConfig) *Node {
	if cfg.Backend == "" {
		cfg.Backend = "nftables"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := &Node{cluster: c, cfg: cfg, index: c.next, name: fmt.Sprintf("node-%d", c.next)}
	c.next++
	return n
}

// boot starts the node's programs. kube-proxy starts when the node has an address:
// before, the stock one would wait for half a minute.
func (n *Node) boot(ctx context.Context) error {
	if err := n.newPrograms(ctx); err != nil {
		return err
	}
	kubelet, proxy := n.sources()
	wait := kubelet != None && !n.cluster.cfg.NoWait
	if kubelet != None {
		if err := n.kubelet.Start(ctx); err != nil {
			return err
		}
	}
	if wait {
		if err := n.awaitAddress(ctx); err != nil {
			return err
		}
	}
	if proxy != None {
		if err := n.proxy.Start(ctx); err != nil {
			return err
		}
	}
	if !wait {
		return nil
	}
	if err := n.WaitReady(ctx); err != nil {
		return err
	}
	n.cluster.cfg.Progress(n.name + " is ready")
	return nil
}

func (n *Node) newPrograms(ctx context.Context) error {
	connect := n.cfg.Connect
	if connect == nil {
		connect = func(_ context.Context, c Client) (string, error) { return c.Kubeconfig, nil }
	}
	kubelet, err := connect(ctx, Client{Node: n, Program: "kubelet", Kubeconfig: n.Dir("kubelet.kubeconfig")})
	if err != nil {
		return fmt.Errorf("connect the kubelet of %s: %w", n.name, err)
	}
	proxy, err := connect(ctx, Client{Node: n, Program: "kube-proxy", Kubeconfig: n.Dir("kube-proxy.kubeconfig")})
	if err != nil {
		return fmt.Errorf("connect kube-proxy of %s: %w", n.name, err)
	}
	n.kubelet, n.proxy = n.kubeletProgram(kubelet), n.proxyProgram(proxy)
	return nil
}

// awaitAddress waits until the kubelet has made the Node object with its address, and
// gives the node its range of pod addresses, as a cloud's controllers do.
func (n *Node) awaitAddress(ctx context.Context) error {
	err := testnode.Eventually(ctx, startLimit, n.name+" has an address", func(ctx context.Context) error {
		node, err := n.Object(ctx)
		if err == nil && len(node.Status.Addresses) == 0 {
			err = errors.New("it has none")
		}
		return err
	})
	if err != nil {
		return err
	}
	ranges := []string{n.PodRange().String()}
	return n.cluster.api.patch(ctx, n.path(), map[string]any{
		"spec": map[string]any{"podCIDR": ranges[0], "podCIDRs": ranges},
	})
}

func (n *Node) path() string { return "/api/v1/nodes/" + n.name }

// Object returns the Node object.
func (n *Node) Object(ctx context.Context) (*corev1.Node, error) {
	node := new(corev1.Node)
	if err := n.cluster.api.get(ctx, n.path(), node); err != nil {
		return nil, err
	}
	return node, nil
}

// WaitReady waits until the node is ready.
func (n *Node) WaitReady(ctx context.Context) error {
	return testnode.Eventually(ctx, startLimit, n.name+" is ready", func(ctx context.Context) error {
		node, err := n.Object(ctx)
		if err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				if condition.Status == corev1.ConditionTrue {
					return nil
				}
				return fmt.Errorf("%s: %s", condition.Reason, condition.Message)
			}
		}
		return errors.New("it says nothing about it")
	})
}
