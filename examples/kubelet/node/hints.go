package node

import (
	"context"
	"errors"
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/runtime"
)

// watcher is the ability of a runtime to tell what happens to containers.
type watcher interface {
	Watch(ctx context.Context) iter.Seq2[runtime.Event, error]
}

// listen wakes the pods of which the runtime tells that a container has stopped, until
// ctx ends. An event is a hint: what has happened is for the pod's worker to find out,
// and the relist finds what no event has told.
func (a *agent) listen(ctx context.Context) error {
	w, ok := a.runtime.(watcher)
	if !ok {
		return nil
	}
	for e, err := range w.Watch(ctx) {
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, runtime.ErrUnimplemented):
			a.log.Info("container runtime tells of no events; it is looked at every second")
			return nil
		case err != nil:
			a.log.Warn("container runtime tells of no events any more; it is looked at every second", "err", err)
			return nil
		default:
			a.hinted.Store(time.Now().UnixNano())
			if e.Type == runtime.EventStopped && e.PodUID != "" {
				a.pool.Wake(e.PodUID)
			}
		}
	}
	return nil
}

// listed returns what the last look has shown of a pod, unless the runtime has told of
// something since.
func (a *agent) listed(uid types.UID) (podsync.Listed, bool) {
	snap := a.snapshot.Load()
	if snap == nil || a.hinted.Load() >= snap.Taken.UnixNano() {
		return podsync.Listed{}, false
	}
	p := snap.Pods[uid]
	if p == nil {
		return podsync.Listed{}, false
	}
	return podsync.Listed{Taken: snap.Taken, Sandboxes: p.Sandboxes, Containers: p.Containers}, true
}
