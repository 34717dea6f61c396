package node

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/events"
	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/podworker/volume"
	"github.com/nodekit-go/nodekit/podworker/volume/csi"
	"github.com/nodekit-go/nodekit/podworker/volume/tokens"
)

// volumes sets up the volumes of pods, with what they refer to.
type volumes struct {
	manager *volume.Manager
	objects *objects
	// The others are nil on a node without an API server.
	tokens  *tokens.Cache
	bundles *bundles
	storage *storage
	// noPlace is told of a pod that finds no place for one of its volumes at this node.
	noPlace func(pod *corev1.Pod, why error)
}

var _ podsync.Volumes = (*volumes)(nil)

func newVolumes(n *Node, a *agent) (*volumes, error) {
	v := &volumes{noPlace: a.noPlace}
	var err error
	if v.objects, err = newObjects(n, func(o volume.Object, pods []types.UID) {
		v.manager.Changed(o)
		for _, uid := range pods {
			a.pool.Wake(uid) // its containers may wait for variables
		}
	}); err != nil {
		return nil, err
	}
	cfg := volume.Config{
		Root:    n.cfg.Root,
		Objects: v.objects,
		OnEvent: func(pod *corev1.Pod, e volume.Event) {
			a.tell(pod, podsync.Event{Type: e.Type, Reason: e.Reason, Message: e.Message})
		},
		OnAttempt: n.cfg.metrics.storage.attempted,
		Log:       n.log,
	}
	if r := n.resources.p.Load(); r != nil {
		cfg.Allocatable = r.Allocatable
	}
	if client := n.cfg.Client; client != nil {
		if v.tokens, err = tokens.New(func(namespace string) tokens.Client { return client.CoreV1().ServiceAccounts(namespace) }, tokens.Config{Log: n.log}); err != nil {
			return nil, err
		}
		v.bundles = newBundles(client, func(o volume.Object) { v.manager.Changed(o) })
		if v.storage, err = newStorage(n, a, v.tokens); err != nil {
			return nil, err
		}
		cfg.Tokens, cfg.Bundles, cfg.Providers = v.tokens, v.bundles, []volume.Provider{v.storage}
	}
	n.warnOfSwap()
	v.manager, err = volume.New(cfg)
	return v, err
}

// abilities are what is done for volumes.
func (v *volumes) abilities() podspec.Ability {
	if v.tokens == nil {
		return 0
	}
	return podspec.ServiceAccountTokens | podspec.TrustBundles | podspec.CSIVolumes
}

// reasonMemorySwaps is the kubelet's word for a node that may write volumes in memory to
// disk.
const (
	reasonMemorySwaps  = "PossibleMemoryBackedVolumesOnDisk"
	messageMemorySwaps = "The tmpfs noswap option is not supported. Memory-backed volumes (e.g. secrets, emptyDirs, etc.) " +
		"might be swapped to disk and should no longer be considered secure."
)

// warnOfSwap tells that what is in memory may not stay there.
func (n *Node) warnOfSwap() {
	swaps, err := volume.Mounter{}.MemoryMaySwap()
	switch {
	case err != nil:
		n.log.Warn("nobody knows whether volumes in memory are swapped", "err", err)
	case swaps:
		n.events.Record(events.OfNode(n.cfg.Name), corev1.EventTypeWarning, reasonMemorySwaps, messageMemorySwaps)
	}
}

// run keeps volumes new until ctx ends.
func (v *volumes) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return v.objects.run(ctx) })
	g.Go(func() error { return v.bundles.run(ctx) })
	g.Go(func() error { return v.storage.run(ctx) })
	g.Go(func() error { return v.manager.Run(ctx) })
	return g.Wait()
}

// SetUp implements podsync.Volumes. What the variables of the pod refer to is known then,
// too.
func (v *volumes) SetUp(ctx context.Context, pod *corev1.Pod) (map[string]podspec.Volume, error) {
	v.objects.use(ctx, pod)
	list, err := v.manager.SetUp(ctx, pod)
	if errors.Is(err, csi.ErrAttachLimit) {
		v.noPlace(pod, err)
	}
	if err != nil {
		return nil, err
	}
	out := make(map[string]podspec.Volume, len(list))
	for name, m := range list {
		out[name] = podspec.Volume{Path: m.Path, Block: m.Block, ReadOnly: m.ReadOnly, Relabel: m.Relabel, Group: m.Group}
	}
	return out, nil
}

// TearDown implements podsync.Volumes.
func (v *volumes) TearDown(ctx context.Context, uid types.UID) error {
	if err := v.manager.TearDown(ctx, uid); err != nil {
		return err
	}
	v.objects.release(uid)
	if v.tokens != nil {
		v.tokens.Forget(uid)
	}
	return nil
}
