package node

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker"
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

// clearEvicted removes what is left of a pod that was evicted once the API server knows:
// it had to go for the sake of the disk. It fails until then, to be called again.
func (a *agent) clearEvicted(ctx context.Context, pod *corev1.Pod) error {
	if s, _ := a.pool.State(pod.UID); !s.Termination.Evicted || ofManifest(pod) {
		return nil
	}
	return a.syncer.Forget(ctx, pod.UID)
}

// over reports whether a pod has ended for good, and who made it knows: an API server. That
// a pod of a manifest has run is known by its containers only.
func (a *agent) over(uid types.UID) bool {
	s, _ := a.pool.State(uid)
	pod, known := a.catalog.pod(uid)
	return s.Phase == podworker.Finished && !s.Restart && known && !ofManifest(pod)
}
