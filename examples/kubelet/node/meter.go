package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/allocatable/eviction"
	"github.com/nodekit-go/nodekit/allocatable/eviction/gauge"
)

// Gauge measures what is left on a machine. *gauge.Gauge does.
type Gauge interface {
	// Observe leaves out what can't be measured, and says why beside the rest.
	Observe() (eviction.Observations, error)
	// Disks says which data share a file system.
	Disks() (eviction.Disks, error)
}

// newGauge measures this machine, with the file systems that the runtime names.
func newGauge(ctx context.Context, n *Node, a *agent) (Gauge, error) {
	cfg := gauge.Config{NodeFS: n.cfg.Root}
	if a.cgroups != nil {
		cfg.Memory = a.cgroups.Tree
		memory := n.resources.p.Load().Capacity[corev1.ResourceMemory]
		cfg.Capacity = memory.Value()
	}
	resp, err := a.runtime.ImageFsInfo(ctx)
	if err != nil {
		a.log.Warn("container runtime does not tell where it keeps images; they are taken to be where the pods' data are", "err", err)
	}
	cfg.ImageFS, cfg.ContainerFS = mountpoint(resp.GetImageFilesystems()), mountpoint(resp.GetContainerFilesystems())
	return gauge.New(cfg)
}

// mountpoint returns the directory of the first file system; "" if there is none.
func mountpoint(list []*runtimeapi.FilesystemUsage) string {
	for _, f := range list {
		return f.GetFsId().GetMountpoint()
	}
	return ""
}

// meter measures the machine and single pods.
type meter struct {
	gauge Gauge
	agent *agent
	logs  func(pod *corev1.Pod) string // the directory of a pod's logs
}

// Observe is part of [eviction.Meter]. Of what can't be measured nothing is decided.
func (m *meter) Observe(context.Context) (eviction.Observations, error) {
	left, err := m.gauge.Observe()
	if err != nil && len(left) > 0 {
		m.agent.log.Warn("not all of the machine could be measured", "err", err)
		err = nil
	}
	return left, err
}

// Usages is part of [eviction.Meter]: what the runtime tells of containers, control
// groups of pods, and the disk of logs and volumes.
func (m *meter) Usages(ctx context.Context, pods []*corev1.Pod) (eviction.Usages, error) {
	stats, err := m.agent.runtime.ListContainerStats(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("measure containers: %w", err)
	}
	containers := map[types.UID][]*runtimeapi.ContainerStats{}
	for _, s := range stats {
		uid := types.UID(s.GetAttributes().GetLabels()["io.kubernetes.pod.uid"])
		containers[uid] = append(containers[uid], s)
	}
	usages := eviction.Usages{}
	for _, pod := range pods {
		usage, err := m.usage(ctx, pod, containers[pod.UID])
		if err != nil {
			m.agent.log.Warn("pod could not be measured", "pod", fullName(pod), "uid", string(pod.UID), "err", err)
			continue
		}
		usages[string(pod.UID)] = usage
	}
	return usages, nil
}

// usage measures one pod.
func (m *meter) usage(ctx context.Context, pod *corev1.Pod, stats []*runtimeapi.ContainerStats) (eviction.Usage, error) {
	u := eviction.Usage{Volumes: map[string]eviction.Disk{}}
	logs := m.logs(pod)
	for _, s := range stats {
		c := eviction.ContainerUsage{
			Name:   s.GetAttributes().GetMetadata().GetName(),
			Memory: int64(s.GetMemory().GetWorkingSetBytes().GetValue()), //nolint:gosec // no container has 8 EiB
			Rootfs: eviction.Disk{
				Bytes:  int64(s.GetWritableLayer().GetUsedBytes().GetValue()),  //nolint:gosec // as above
				Inodes: int64(s.GetWritableLayer().GetInodesUsed().GetValue()), //nolint:gosec // as above
			},
		}
		var err error
		if c.Logs, err = taken(filepath.Join(logs, c.Name)); err != nil {
			return u, err
		}
		u.Containers = append(u.Containers, c)
		u.Memory += c.Memory
	}
	volumes, err := m.agent.volumes.manager.Usage(ctx, pod.UID)
	if err != nil {
		return u, err
	}
	for _, v := range volumes {
		if !v.Memory {
			u.Volumes[v.Volume] = eviction.Disk{Bytes: v.Bytes, Inodes: v.Inodes}
		}
	}
	return u, m.group(pod.UID, &u)
}

// group takes memory and processes from the control group of the pod, which counts
// what is in no container, too.
func (m *meter) group(uid types.UID, u *eviction.Usage) error {
	if m.agent.cgroups == nil {
		return nil
	}
	used, err := m.agent.cgroups.PodUsage(uid)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	u.Memory, u.Processes = max(u.Memory, used.Memory), used.Processes
	return nil
}

// taken is what a directory takes, nothing if it is not there.
func taken(dir string) (eviction.Disk, error) {
	d, err := gauge.Taken(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return d, err
}
