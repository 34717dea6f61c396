package node

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/runtime/server"
)

// apiPods are the pods of the node as its API shows them.
type apiPods struct{ node *Node }

var _ interface {
	server.Pods
	server.AllocatedPods
	server.MirroredPods
} = apiPods{}

// List returns the pods of the API server as they are there, and those of manifests with
// their own status, which without an API server nobody else has. Mirrors of the latter are
// not among them, nor are they with the kubelet: GetPods in pkg/kubelet/kubelet_getters.go of
// Kubernetes lists what is not a mirror.
func (p apiPods) List(context.Context) ([]*corev1.Pod, error) {
	if !p.node.catalog.settled() {
		return nil, errUnsettled
	}
	pods := p.node.catalog.shown()
	if p.node.cfg.Client == nil {
		for i, pod := range pods {
			pods[i] = sinceSeen(pod)
		}
	}
	return pods, nil
}

// Find returns a pod with the newest status.
func (p apiPods) Find(namespace, name string) (*corev1.Pod, bool) {
	return p.node.catalog.named(namespace, name)
}

// Allocated returns the pods that hold resources.
func (p apiPods) Allocated(context.Context) ([]*corev1.Pod, error) {
	a := p.node.agent.get()
	if a == nil {
		return nil, errNoRuntime
	}
	pods := a.admissions.active()
	slices.SortFunc(pods, byName)
	return pods, nil
}

// MirrorUID returns the UID that a static pod has at the API server.
func (p apiPods) MirrorUID(pod *corev1.Pod) types.UID {
	if a := p.node.agent.get(); a != nil && a.cluster != nil && ofManifest(pod) {
		return a.cluster.mirrorUIDs.of(pod)
	}
	return ""
}

// mirrorUIDs are the UIDs of mirrors as the API server shows them, by name.
type mirrorUIDs struct {
	p atomic.Pointer[map[types.NamespacedName]types.UID]
}

func (m *mirrorUIDs) replace(mirrors []*corev1.Pod) {
	uids := make(map[types.NamespacedName]types.UID, len(mirrors))
	for _, pod := range mirrors {
		uids[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = pod.UID
	}
	m.p.Store(&uids)
}

// of returns the UID of the mirror of a pod, "" if there is none.
func (m *mirrorUIDs) of(pod *corev1.Pod) types.UID {
	uids := m.p.Load()
	if uids == nil {
		return ""
	}
	return (*uids)[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}]
}

func byName(a, b *corev1.Pod) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// shown returns the set, sorted by namespace and name.
func (c *catalog) shown() []*corev1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	pods := make([]*corev1.Pod, 0, len(c.pods))
	for uid, pod := range c.pods {
		if s, ok := c.statuses[uid]; ok && ofManifest(pod) {
			pod = withStatus(pod, *s)
		}
		pods = append(pods, pod)
	}
	slices.SortFunc(pods, byName)
	return pods
}

// named returns the pod of a name with its newest status; of two, the one that is not being
// deleted.
func (c *catalog) named(namespace, name string) (*corev1.Pod, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found *corev1.Pod
	for _, pod := range c.pods {
		if pod.Name == name && pod.Namespace == namespace && (found == nil || pod.DeletionTimestamp == nil) {
			found = pod
		}
	}
	if found == nil {
		return nil, false
	}
	if s, ok := c.statuses[found.UID]; ok {
		found = withStatus(found, *s)
	}
	return found, true
}

// withStatus returns a pod with another status; they share the rest.
func withStatus(pod *corev1.Pod, s corev1.PodStatus) *corev1.Pod {
	own := *pod
	own.Status = s
	return &own
}

// errNoRuntime is why nothing can be done with containers yet.
var errNoRuntime = errors.New("the container runtime has not answered yet")

// lateContainers does what is asked of containers once the runtime has answered.
type lateContainers struct{ node *Node }

func (l lateContainers) get() (*server.CRI, error) {
	if a := l.node.agent.get(); a != nil {
		return a.containers, nil
	}
	return nil, errNoRuntime
}

// CopyLog implements server.Logs.
func (l lateContainers) CopyLog(ctx context.Context, w io.Writer, c server.Container, opts *corev1.PodLogOptions) error {
	cri, err := l.get()
	if err != nil {
		return err
	}
	return cri.CopyLog(ctx, w, c, opts)
}

// Exec implements server.Streams.
func (l lateContainers) Exec(ctx context.Context, c server.Container, cmd []string, opts server.StreamOptions) (*url.URL, error) {
	cri, err := l.get()
	if err != nil {
		return nil, err
	}
	return cri.Exec(ctx, c, cmd, opts)
}

// Attach implements server.Streams.
func (l lateContainers) Attach(ctx context.Context, c server.Container, opts server.StreamOptions) (*url.URL, error) {
	cri, err := l.get()
	if err != nil {
		return nil, err
	}
	return cri.Attach(ctx, c, opts)
}

// PortForward implements server.Streams.
func (l lateContainers) PortForward(ctx context.Context, pod *corev1.Pod, ports []int32) (*url.URL, error) {
	cri, err := l.get()
	if err != nil {
		return nil, err
	}
	return cri.PortForward(ctx, pod, ports)
}

// Run implements server.Commands.
func (l lateContainers) Run(ctx context.Context, c server.Container, cmd []string) ([]byte, error) {
	cri, err := l.get()
	if err != nil {
		return nil, err
	}
	return cri.Run(ctx, c, cmd)
}

// Checkpoint implements server.Checkpoints.
func (l lateContainers) Checkpoint(ctx context.Context, c server.Container, timeout time.Duration) (string, error) {
	cri, err := l.get()
	if err != nil {
		return "", err
	}
	return cri.Checkpoint(ctx, c, timeout)
}

// Running implements server.RunningPods.
func (l lateContainers) Running(ctx context.Context) ([]*corev1.Pod, error) {
	cri, err := l.get()
	if err != nil {
		return nil, err
	}
	return cri.Running(ctx)
}
