package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/nodekit-go/nodekit/test/testnode"
)

// adopted reports whether the node lives in the namespaces of somebody else's runtime.
func (n *Node) adopted() bool { return n.cfg.Runtime.socket() != "" }

// joinAdopted joins a node in the namespace of somebody else's runtime, which knows its
// ways, and whose pods may have any addresses.
func joinAdopted(ctx context.Context, plane, node *testnode.Node, index int) error {
	if err := joinHub(ctx, plane, node, index, adoptedLink(index)); err != nil {
		return err
	}
	if err := plane.IP(ctx, []string{"route", "replace", "default", "via", nodeAddress(index).String()}); err != nil {
		return err
	}
	out, err := node.Command(ctx, "sh", "-c", shareScript, "share", node.KubeletRoot()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("share mounts of the kubelet: %w: %s", err, out)
	}
	return nil
}

func adoptedLink(index int) string { return "nodekit" + strconv.Itoa(index) }

// leave removes what the node's own end does not remove from the namespaces of somebody
// else's runtime: the rules of kube-proxy and the link to the control plane.
func (n *Node) leave(ctx context.Context) error {
	if !n.adopted() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	err := n.IP(ctx, []string{"link", "delete", adoptedLink(n.index)})
	if n.proxy != nil {
		err = errors.Join(err, n.removeRules(ctx))
	}
	// It was made for the kubelet to be covered, and stays when somebody uses it.
	_ = os.Remove("/var/lib/kubelet")
	return err
}

func (n *Node) removeRules(ctx context.Context) error {
	if err := n.proxy.Kill(); err != nil {
		return err
	}
	_, source := n.sources()
	if source == None {
		return nil
	}
	binary, err := n.cluster.binaries.node(ctx, n, "kube-proxy", source)
	if err != nil {
		return err
	}
	out, err := n.Command(ctx, binary, "--cleanup", "--config="+n.Dir("kube-proxy.yaml")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("remove rules of kube-proxy: %w: %s", err, out)
	}
	return nil
}
