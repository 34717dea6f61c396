package node

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/podsource"
	"github.com/nodekit-go/nodekit/staticpods/mirror"
)

// newMirrors returns what shows the static pods of an agent at its API server.
func newMirrors(n *Node, a *agent) (*mirror.Keeper, error) {
	return mirror.New(mirror.Config{
		Name:   n.cfg.Name,
		Pods:   func(namespace string) mirror.Pods { return n.cfg.Client.CoreV1().Pods(namespace) },
		Node:   n.uid,
		Ending: func(namespace, name string) bool { return a.pool.Ending(namespace, name) },
		Log:    n.log,
	})
}

// uid returns the UID of the Node as the API server has it at this moment. It waits until
// the Node is registered.
func (n *Node) uid(ctx context.Context) (types.UID, error) {
	if n.beat != nil {
		if _, err := n.beat.reporter.UID(ctx); err != nil {
			return "", err
		}
	}
	node, err := n.cfg.Client.CoreV1().Nodes().Get(ctx, n.cfg.Name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if node.DeletionTimestamp != nil {
		return "", fmt.Errorf("node %s is being deleted", node.Name)
	}
	return node.UID, nil
}

// registered is told that there is a Node, or another one than before.
func (n *Node) registered() {
	a := n.agent.get()
	if a == nil {
		return
	}
	if a.cluster != nil {
		a.cluster.mirrors.Wake()
	}
	if a.volumes.storage != nil {
		a.volumes.storage.Registered() // its CSINode has gone with the Node of before
	}
}

// show has the API server show the static pods of a set. It is called when the pool has
// the set, so that a pod that has to end is known to be ending.
func (c *cluster) show(set podsource.Merged) {
	if c == nil {
		return
	}
	var pods []*corev1.Pod
	for _, pod := range set.Pods {
		if ofManifest(pod) {
			pods = append(pods, pod)
		}
	}
	c.mirrors.Want(mirror.Set{Pods: pods, Partial: !set.Complete})
}

// mirrored returns the UID of the static pod that an object of the API server says to
// mirror; it is empty for other pods. The hash of a static pod is its UID.
func mirrored(pod *corev1.Pod) types.UID {
	return types.UID(pod.Annotations[corev1.MirrorPodAnnotationKey])
}
