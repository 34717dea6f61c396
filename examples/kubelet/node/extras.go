package node

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podsync"
)

// extras are what single containers are given of the node: devices, and what else it
// hands out.
type extras struct{ agent *agent }

var _ podsync.Extras = extras{}

// NoCPUQuota implements podsync.Extras.
func (e extras) NoCPUQuota(uid types.UID, container string) bool {
	return e.agent.alignment.exclusive(uid, container)
}

// ForContainer implements podsync.Extras.
func (e extras) ForContainer(ctx context.Context, pod *corev1.Pod, c *corev1.Container) (podspec.Extra, error) {
	extra, err := e.agent.devices.extra(ctx, pod, c)
	if err == nil {
		e.agent.alignment.extend(&extra, pod, c.Name)
	}
	return extra, err
}
