package node

import (
	"context"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nodekit-go/nodekit/internal/pluginwatch"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/podworker/volume"
	"github.com/nodekit-go/nodekit/podworker/volume/csi"
	"github.com/nodekit-go/nodekit/podworker/volume/tokens"
)

// storage has the volumes of storage drivers, which register in a directory of the node.
// It is nil on a node without an API server.
type storage struct {
	*csi.Provider
	plugins func(ctx context.Context, d Drivers) error
}

// Drivers take storage drivers that serve CSI.
type Drivers interface {
	// Register takes a driver that serves at an endpoint, the path of a socket, and speaks
	// versions of CSI.
	Register(ctx context.Context, name, endpoint string, versions []string) error
	// Deregister is told that it is gone.
	Deregister(name, endpoint string)
}

var _ Drivers = (*csi.Provider)(nil)

// pluginsDir is where plugins of the node register
// (https://kubernetes.io/docs/reference/node/kubelet-files/).
const pluginsDir = "plugins_registry"

func newStorage(n *Node, a *agent, cache *tokens.Cache) (*storage, error) {
	provider, err := csi.New(csi.Config{
		Node:         n.cfg.Name,
		Root:         n.cfg.Root,
		API:          storageAPI(n.cfg.Client),
		Tokens:       cache,
		ReportsInUse: n.beat != nil,
		InUseChanged: n.beat.wake,
		OnEvent:      a.tellStorage,
		OnCall:       n.cfg.metrics.storage.called,
		Log:          n.log,
	})
	if err != nil {
		return nil, err
	}
	s := &storage{Provider: provider, plugins: n.cfg.Plugins}
	if s.plugins != nil {
		return s, nil
	}
	watcher, err := pluginwatch.New(pluginwatch.Config{
		Dir:      filepath.Join(n.cfg.Root, pluginsDir),
		Handlers: n.devices.handlers(map[string]pluginwatch.Handler{pluginwatch.CSI: drivers{provider}}),
		Log:      n.log,
	})
	s.plugins = func(ctx context.Context, _ Drivers) error { return watcher.Run(ctx) }
	return s, err
}

// tellStorage tells an event about a volume of a driver, of the pod and of the claim.
func (a *agent) tellStorage(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim, e volume.Event) {
	a.tell(pod, podsync.Event{Type: e.Type, Reason: e.Reason, Message: e.Message})
	if claim == nil {
		return
	}
	about := corev1.ObjectReference{
		APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
		ResourceVersion: claim.ResourceVersion,
	}
	a.events.Record(about, e.Type, e.Reason, e.Message)
}

// storageAPI is what an API server has of storage.
func storageAPI(client kubernetes.Interface) csi.API {
	return csi.API{
		Claims:      func(namespace string) csi.Claims { return client.CoreV1().PersistentVolumeClaims(namespace) },
		Volumes:     client.CoreV1().PersistentVolumes(),
		Secrets:     func(namespace string) csi.Getter[corev1.Secret] { return client.CoreV1().Secrets(namespace) },
		Attachments: client.StorageV1().VolumeAttachments(),
		Drivers:     client.StorageV1().CSIDrivers(),
		Nodes:       client.CoreV1().Nodes(),
		CSINodes:    client.StorageV1().CSINodes(),
	}
}

// drivers are plugins that serve CSI.
type drivers struct{ *csi.Provider }

// Register implements pluginwatch.Handler.
func (d drivers) Register(ctx context.Context, p pluginwatch.Plugin) error {
	return d.Provider.Register(ctx, p.Name, p.Endpoint, p.Versions)
}

// Deregister implements pluginwatch.Handler.
func (d drivers) Deregister(_ context.Context, p pluginwatch.Plugin) {
	d.Provider.Deregister(p.Name, p.Endpoint)
}

// run follows the drivers until ctx ends.
func (s *storage) run(ctx context.Context) error {
	if s == nil {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.Run(ctx) })
	g.Go(func() error { return s.plugins(ctx, s.Provider) })
	return g.Wait()
}

// inUse returns the volumes that have to stay attached, nil if nobody knows.
func (n *Node) inUse() []corev1.UniqueVolumeName {
	if a := n.agent.get(); a != nil && a.volumes.storage != nil {
		return append([]corev1.UniqueVolumeName{}, a.volumes.storage.InUse()...) // not nil, also if there are none
	}
	return nil
}

// reportedInUse takes what the Node says of them at the API server.
func (n *Node) reportedInUse(names []corev1.UniqueVolumeName) {
	if a := n.agent.get(); a != nil && a.volumes.storage != nil {
		a.volumes.storage.Reported(names)
	}
}

// storageFault says why pods with volumes of drivers cannot come yet, empty if they can.
func (n *Node) storageFault() string {
	a := n.agent.get()
	switch {
	case n.cfg.Client == nil:
		return ""
	case a == nil:
		return "CSINode is not yet initialized" // in the words of the kubelet
	}
	if err := a.volumes.storage.Ready(); err != nil {
		return err.Error()
	}
	return ""
}
