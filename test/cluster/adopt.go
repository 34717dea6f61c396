package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/nodekit-go/nodekit/test/testnode"
)

// adopted reports whether the node lives in the namespaces of somebody else's runtime.
func (n *Node) adopted() bool { return n.cfg.Runtime.socket() != "" }

// joinAdopted joins a node in the namespace of somebody else's runtime, which knows its
// ways, and whose pods may have any addresses.
func joinAdopted(ctx context.Context, plane, node *testnode.Node, index int) error {
	err := errors.Join(
		node.AtEnd("sh", "-c", unlinkScript, "unlink", adoptedLink(index)),
		node.AtEnd("sh", "-c", uncoverScript, "uncover", filepath.Dir(node.Dir())),
	)
	if err != nil {
		return err
	}
	if err := joinHub(ctx, plane, node, index, adoptedLink(index)); err != nil {
		return err
	}
	if err := plane.IP(ctx, []string{"route", "replace", "default", "via", nodeAddress(index).String()}); err != nil {
		return err
	}
	out, err := node.Command(ctx, "sh", "-c", shareScript, "share", node.KubeletRoot(), node.Dir("cover")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("share mounts of the kubelet: %w: %s", err, out)
	}
	return nil
}

func adoptedLink(index int) string { return "nodekit" + strconv.Itoa(index) }

// The commands that take back what the cluster did to the namespaces of somebody else's
// runtime. They bear to run twice.
const (
	// unlinkScript removes the link $1, unless the control plane's end has done so.
	unlinkScript = `ip link delete "$1" 2>/dev/null
! ip link show "$1" >/dev/null 2>&1`
	// uncoverScript removes what was made for the kubelet to be covered, unless it is in
	// use, maybe by another one of the nodes in the folder $1: the kernel would take it
	// from under a mount that another namespace made.
	uncoverScript = `set -- "$1"/*/cover
[ $# -gt 1 ] || rmdir /var/lib/kubelet 2>/dev/null || :`
)

// cleanRules makes the rules of kube-proxy go with the node.
func (n *Node) cleanRules(binary string) error {
	if !n.adopted() {
		return nil
	}
	return n.AtEnd(binary, "--cleanup", "--config="+n.Dir("kube-proxy.yaml"))
}
