package node

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/nodekit-go/nodekit/podworker/statuswriter"
)

// cluster is the API server as far as pods are concerned: those that are bound to this
// node, and the statuses that go back.
type cluster struct {
	node   string
	pods   cache.SharedIndexInformer
	writer *statuswriter.Writer
	// owner finds the static pod of a mirror.
	owner func(mirror *corev1.Pod) (types.UID, bool)
}

// journalDir is where terminal statuses are kept until the API server has them.
const journalDir = "terminal-statuses"

// newCluster returns the cluster of an agent, nil without an API server.
func newCluster(n *Node, a *agent) (*cluster, error) {
	if n.cfg.Client == nil {
		return nil, nil
	}
	c := &cluster{node: n.cfg.Name, owner: a.catalog.static}
	var err error
	c.writer, err = statuswriter.Open(statuswriter.Config{
		Pods:  func(namespace string) statuswriter.Pods { return n.cfg.Client.CoreV1().Pods(namespace) },
		Dir:   filepath.Join(n.cfg.Root, journalDir),
		Hooks: statuswriter.Hooks{Acknowledged: func(uid types.UID) { a.pool.Wake(uid) }},
		Log:   n.log,
	})
	if c.writer == nil {
		return nil, err
	}
	if err != nil {
		n.log.Error("some terminal statuses of pods are lost", "err", err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(n.cfg.Client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", n.cfg.Name).String()
	}), informers.WithTransform(lighten))
	c.pods = factory.Core().V1().Pods().Informer()
	return c, nil
}

// lighten drops what no node needs.
func lighten(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.ManagedFields = nil
	}
	return object, nil
}

// run watches the pods and brings statuses back until ctx ends. It delivers once the
// whole set is known, and after each change.
func (c *cluster) run(ctx context.Context, set func([]*corev1.Pod)) error {
	changed := make(chan struct{}, 1)
	wake := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	_, err := c.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { c.seen(object); wake() },
		UpdateFunc: func(_, object any) { c.seen(object); wake() },
		DeleteFunc: func(object any) { c.gone(object); wake() },
	})
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- c.writer.Run(ctx) }()
	watching := make(chan struct{})
	go func() { defer close(watching); c.pods.RunWithContext(ctx) }()
	if cache.WaitForCacheSync(ctx.Done(), c.pods.HasSynced) {
		wake()
	}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-changed:
			if c.pods.HasSynced() {
				set(c.list())
			}
		}
	}
	<-watching
	return <-done
}

// list returns the pods of the node, oldest first, without mirrors.
func (c *cluster) list() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, object := range c.pods.GetStore().List() {
		if pod, ok := object.(*corev1.Pod); ok && !isMirror(pod) {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		if order := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); order != 0 {
			return order
		}
		return strings.Compare(string(a.UID), string(b.UID))
	})
	return pods
}

func (c *cluster) seen(object any) {
	pod, ok := object.(*corev1.Pod)
	switch {
	case !ok:
	case !isMirror(pod):
		c.writer.Observe(pod, "")
	default:
		if uid, ok := c.owner(pod); ok {
			c.writer.Observe(pod, uid)
		}
	}
}

func (c *cluster) gone(object any) {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	pod, ok := object.(*corev1.Pod)
	switch {
	case !ok:
	case !isMirror(pod):
		c.writer.Gone(pod.UID)
	default:
		if uid, ok := c.owner(pod); ok {
			c.writer.Gone(uid)
		}
	}
}

// isMirror reports whether an object of the API server is the mirror of a static pod.
func isMirror(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}

// flush waits until the API server has all statuses, as before the machine goes down.
func (n *Node) flush(ctx context.Context) error {
	if a := n.agent.get(); a != nil && a.cluster != nil {
		return a.cluster.writer.Flush(ctx)
	}
	return nil
}

// The methods below do nothing on a node without an API server.

// set takes the newest status of a pod.
func (c *cluster) set(pod *corev1.Pod, status *corev1.PodStatus) error {
	if c == nil {
		return nil
	}
	return c.writer.Set(pod, status)
}

// finished says that nothing of a pod is left but dead containers.
func (c *cluster) finished(pod *corev1.Pod) error {
	if c == nil {
		return nil
	}
	return c.writer.Finished(pod)
}

// forget drops a pod that is in no source any more.
func (c *cluster) forget(uid types.UID) {
	if c != nil {
		c.writer.Forget(uid)
	}
}

// acknowledged reports whether the last traces of a pod may go.
func (c *cluster) acknowledged(uid types.UID) bool { return c == nil || c.writer.Acknowledged(uid) }

// ended returns the terminal status of a pod that the API server does not have yet.
func (c *cluster) ended(uid types.UID) (corev1.PodStatus, bool) {
	if c == nil || c.writer.Acknowledged(uid) {
		return corev1.PodStatus{}, false
	}
	return c.writer.Status(uid)
}
