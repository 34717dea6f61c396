package node

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/podsource"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
	"github.com/nodekit-go/nodekit/podworker/statuswriter"
	"github.com/nodekit-go/nodekit/staticpods/mirror"
)

// cluster is the API server as far as pods are concerned: those that are bound to this
// node, and the statuses that go back.
type cluster struct {
	source *podsource.Source
	writer *statuswriter.Writer
	// standby has the pods of an earlier process; nil without a pod store.
	standby *standby
	// mirrors shows the static pods.
	mirrors *mirror.Keeper
	// told are the objects that the writer knows. Only the goroutine of the source uses
	// it.
	told map[types.UID]*corev1.Pod
	// shown is how many mirrors there are.
	shown atomic.Int64
	// mirrorUIDs are their UIDs.
	mirrorUIDs mirrorUIDs
}

// journalDir is where terminal statuses are kept until the API server has them.
const journalDir = "terminal-statuses"

// newCluster returns the cluster of an agent, nil without an API server.
func newCluster(n *Node, a *agent) (*cluster, error) {
	if n.cfg.Client == nil {
		return nil, nil
	}
	c := &cluster{told: map[types.UID]*corev1.Pod{}}
	var err error
	if c.mirrors, err = newMirrors(n, a); err != nil {
		return nil, err
	}
	c.writer, err = statuswriter.Open(statuswriter.Config{
		Pods:  func(namespace string) statuswriter.Pods { return n.cfg.Client.CoreV1().Pods(namespace) },
		Dir:   filepath.Join(n.cfg.Root, journalDir),
		Hooks: statuswriter.Hooks{Acknowledged: func(uid types.UID) { a.pool.Wake(uid) }, Written: a.metrics.wrote},
		Log:   n.log,
	})
	if c.writer == nil {
		return nil, err
	}
	if err != nil {
		n.log.Error("some terminal statuses of pods are lost", "err", err)
	}
	c.standby = newStandby(n)
	c.source, err = podsource.New(n.cfg.Client.CoreV1().Pods(corev1.NamespaceAll), podsource.Config{
		Node:  n.cfg.Name,
		Hooks: podsource.Hooks{Answered: c.standby.answered},
		Log:   n.log,
	})
	return c, err
}

// run reads the pods and brings statuses back until ctx ends.
func (c *cluster) run(ctx context.Context, m *podsource.Merger, put func(error)) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.writer.Run(ctx) })
	g.Go(func() error { return c.mirrors.Run(ctx) })
	g.Go(func() error {
		return c.standby.run(ctx, c.source.Retry, func(pods []*corev1.Pod) { put(m.Recall(podsource.API, pods)) })
	})
	g.Go(func() error {
		return c.source.Run(ctx, func(set podsource.Set) {
			c.observe(set)
			c.mirrors.Have(set.Mirrors)
			c.standby.replace(set.Pods)
			put(m.Set(podsource.API, set.Pods))
		})
	})
	return g.Wait()
}

// observe tells the writer what has changed at the API server. The status of a static pod
// goes to its mirror.
func (c *cluster) observe(set podsource.Set) {
	c.shown.Store(int64(len(set.Mirrors)))
	c.mirrorUIDs.replace(set.Mirrors)
	there := map[types.UID]bool{}
	for _, pod := range slices.Concat(set.Pods, set.Mirrors) {
		there[pod.UID] = true
		if old := c.told[pod.UID]; old != nil && old.ResourceVersion == pod.ResourceVersion {
			continue
		}
		c.writer.Observe(pod, mirrored(pod))
		c.told[pod.UID] = pod
	}
	for uid := range c.told {
		if !there[uid] {
			delete(c.told, uid)
			c.writer.Gone(uid)
		}
	}
	c.writer.Have(there)
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
	var ended error
	if podstatus.IsTerminal(status.Phase) && !ofManifest(pod) {
		ended = c.standby.ended(pod.UID)
	}
	return errors.Join(ended, c.writer.Set(pod, status))
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
