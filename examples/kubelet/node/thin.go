package node

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker"
	"github.com/nodekit-go/nodekit/podworker/podsync"
)

// thin removes dead containers if the node keeps too many of them. Pods that keep too much
// themselves do so in their next sync.
func (a *agent) thin(ctx context.Context) {
	var list []*runtimeapi.Container
	for uid, p := range a.snapshot.Load().Pods {
		if _, known := a.pool.State(uid); known {
			list = append(list, p.Containers...)
		}
	}
	crowded, err := a.syncer.Thin(ctx, list, a.over)
	if err != nil {
		a.log.Warn("dead containers that are too many were not removed", "err", err)
	}
	for _, uid := range crowded {
		a.pool.Wake(uid)
	}
}

// uncleared are evicted pods that have ended, and of which something is kept until the API
// server knows.
type uncleared struct {
	mu   sync.Mutex // guards uids
	uids map[types.UID]bool
}

func (u *uncleared) add(uid types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.uids == nil {
		u.uids = map[types.UID]bool{}
	}
	u.uids[uid] = true
}

func (u *uncleared) drop(uid types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.uids, uid)
}

func (u *uncleared) list() []types.UID {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Collect(maps.Keys(u.uids))
}

// clearEvicted removes what is left of a pod that was evicted: it had to go for the sake of
// the disk. Until the API server knows how it ended its dead containers stay. Nobody waits
// for that, neither the next eviction nor a machine that goes down.
func (a *agent) clearEvicted(ctx context.Context, pod *corev1.Pod) error {
	if s, _ := a.pool.State(pod.UID); !s.Termination.Evicted || ofManifest(pod) {
		return nil
	}
	err := a.syncer.Forget(ctx, pod.UID)
	if errors.Is(err, podsync.ErrNotAcknowledged) {
		a.uncleared.add(pod.UID)
		return nil
	}
	return err
}

// clearLate removes what is left of evicted pods of which the API server knows by now. Of
// those that it does not name any more all is removed by their workers.
func (a *agent) clearLate(ctx context.Context) {
	for _, uid := range a.uncleared.list() {
		s, known := a.pool.State(uid)
		switch {
		case !known || s.Deleted || s.Restart:
			a.uncleared.drop(uid)
			continue
		case !s.Done() || !a.cluster.acknowledged(uid) || a.leftovers.resting(uid, time.Now()):
			continue
		}
		if err := a.syncer.Forget(ctx, uid); err != nil {
			pod := &corev1.Pod{}
			pod.UID = uid
			if there, ok := a.catalog.pod(uid); ok {
				pod = there
			}
			a.leftovers.note(pod, err)
			continue
		}
		a.leftovers.drop(uid)
		a.uncleared.drop(uid)
	}
}

// over reports whether a pod has ended for good, and who made it knows: an API server. That
// a pod of a manifest has run is known by its containers only.
func (a *agent) over(uid types.UID) bool {
	s, _ := a.pool.State(uid)
	pod, known := a.catalog.pod(uid)
	return s.Phase == podworker.Finished && !s.Restart && known && !ofManifest(pod)
}
