package node

import (
	"context"
	"errors"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime"
)

// tellPodCIDRs tells the runtime the address ranges that the cluster gave the Node for its
// pods, when they are new: some write the configuration of their network with them. One that
// could not take them is told again at the next look at its status.
func (a *agent) tellPodCIDRs(ctx context.Context) {
	node := a.beat.object()
	if node == nil || len(node.Spec.PodCIDRs) == 0 {
		return
	}
	ranges := strings.Join(node.Spec.PodCIDRs, ",")
	if ranges == a.told.podCIDRs {
		return
	}
	err := a.runtime.UpdateRuntimeConfig(ctx, &runtimeapi.RuntimeConfig{NetworkConfig: &runtimeapi.NetworkConfig{PodCidr: ranges}})
	switch {
	case err == nil:
		a.log.Info("container runtime was told the pods' address ranges", "ranges", ranges)
	case errors.Is(err, runtime.ErrUnimplemented):
		a.log.Info("container runtime does not want to know the pods' address ranges", "ranges", ranges)
	default:
		a.log.Warn("container runtime could not be told the pods' address ranges", "ranges", ranges, "err", err)
		return
	}
	a.told.podCIDRs = ranges
}
