package node

import (
	"context"
	"fmt"
	"path/filepath"

	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/runtime/logs"
)

// newRotator returns what keeps the logs of containers from filling the disk; nil if the
// configuration gives them no limit, by a size below zero, or another agent looks after
// the machine.
func newRotator(n *Node, a *agent) (*logs.Rotator, error) {
	k := n.cfg.Kubelet
	size, err := resource.ParseQuantity(k.ContainerLogMaxSize)
	if err != nil {
		return nil, fmt.Errorf("containerLogMaxSize: %w", err)
	}
	if size.Sign() < 0 || n.guest {
		return nil, nil
	}
	return logs.NewRotator(a.runtime, a.liveLogs(k.PodLogsDir), logs.RotatorConfig{
		Policy:   logs.Policy{MaxSize: size.Value(), MaxFiles: int(*k.ContainerLogMaxFiles)},
		Interval: k.ContainerLogMonitorInterval.Duration,
		Log:      n.log,
	})
}

// rotate rotates logs until ctx ends.
func (a *agent) rotate(ctx context.Context) error {
	if a.rotator == nil {
		return nil
	}
	return a.rotator.Run(ctx)
}

// liveLogs lists the logs below root of the containers that run, of the pods that are
// wanted here.
func (a *agent) liveLogs(root string) func(context.Context) ([]logs.Live, error) {
	return func(context.Context) ([]logs.Live, error) {
		snap := a.snapshot.Load()
		var live []logs.Live
		for _, k := range a.catalog.known() {
			seen := snap.Pods[k.pod.UID]
			if seen == nil {
				continue
			}
			dir := podspec.LogDirName(k.pod.Namespace, k.pod.Name, k.pod.UID)
			for _, c := range seen.Containers {
				if c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
					path := podspec.LogPath(c.GetMetadata().GetName(), c.GetMetadata().GetAttempt())
					live = append(live, logs.Live{ContainerID: c.GetId(), File: logs.File{Root: root, Path: filepath.Join(dir, path)}})
				}
			}
		}
		return live, nil
	}
}
