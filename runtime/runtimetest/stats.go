package runtimetest

import (
	"context"
	"maps"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A running container uses a fixed amount of everything, so that tests can add up.
const (
	statsMemory = 8 << 20
	// statsCPU is the share of one core in use: a tenth.
	statsCPU = 0.1
)

// ContainerStats implements CRI.
func (s *runtimeService) ContainerStats(_ context.Context, req *runtimeapi.ContainerStatsRequest) (*runtimeapi.ContainerStatsResponse, error) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	c := s.world.containers[req.GetContainerId()]
	if c == nil {
		return nil, notFound("container", req.GetContainerId())
	}
	return &runtimeapi.ContainerStatsResponse{Stats: c.statsLocked()}, nil
}

// ListContainerStats implements CRI. As in containerd, containers that do not run are
// listed without CPU and memory; CRI-O leaves out those that have exited.
func (s *runtimeService) ListContainerStats(_ context.Context, req *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	f := req.GetFilter()
	resp := &runtimeapi.ListContainerStatsResponse{}
	for _, c := range s.world.containers {
		if (f.GetId() != "" && f.GetId() != c.id) ||
			(f.GetPodSandboxId() != "" && f.GetPodSandboxId() != c.sandbox.id) ||
			!matchLabels(f.GetLabelSelector(), c.config.GetLabels()) ||
			(s.world.kind == CRIO && c.end != nil) {
			continue
		}
		resp.Stats = append(resp.Stats, c.statsLocked())
	}
	return resp, nil
}

// PodSandboxStats implements CRI.
func (s *runtimeService) PodSandboxStats(_ context.Context, req *runtimeapi.PodSandboxStatsRequest) (*runtimeapi.PodSandboxStatsResponse, error) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	sb := s.world.sandboxes[req.GetPodSandboxId()]
	if sb == nil {
		return nil, notFound("sandbox", req.GetPodSandboxId())
	}
	return &runtimeapi.PodSandboxStatsResponse{Stats: s.world.podStatsLocked(sb)}, nil
}

// ListPodSandboxStats implements CRI.
func (s *runtimeService) ListPodSandboxStats(_ context.Context, req *runtimeapi.ListPodSandboxStatsRequest) (*runtimeapi.ListPodSandboxStatsResponse, error) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	f := req.GetFilter()
	resp := &runtimeapi.ListPodSandboxStatsResponse{}
	for _, sb := range s.world.sandboxes {
		if !sb.ready || (f.GetId() != "" && f.GetId() != sb.id) || !matchLabels(f.GetLabelSelector(), sb.config.GetLabels()) {
			continue
		}
		resp.Stats = append(resp.Stats, s.world.podStatsLocked(sb))
	}
	return resp, nil
}

func (c *container) statsLocked() *runtimeapi.ContainerStats {
	stats := &runtimeapi.ContainerStats{Attributes: &runtimeapi.ContainerAttributes{
		Id:          c.id,
		Metadata:    clone(c.config.GetMetadata()),
		Labels:      maps.Clone(c.config.GetLabels()),
		Annotations: maps.Clone(c.config.GetAnnotations()),
	}}
	if c.running() {
		stats.Cpu, stats.Memory = usage(1, time.Since(c.process.started))
	}
	return stats
}

func (w *world) podStatsLocked(s *sandbox) *runtimeapi.PodSandboxStats {
	linux := &runtimeapi.LinuxPodSandboxStats{}
	var longest time.Duration
	for _, c := range w.containersOfLocked(s) {
		if c.running() {
			linux.Containers = append(linux.Containers, c.statsLocked())
			longest = max(longest, time.Since(c.process.started))
		}
	}
	linux.Cpu, linux.Memory = usage(len(linux.Containers), longest)
	return &runtimeapi.PodSandboxStats{
		Attributes: &runtimeapi.PodSandboxAttributes{
			Id:          s.id,
			Metadata:    clone(s.config.GetMetadata()),
			Labels:      maps.Clone(s.config.GetLabels()),
			Annotations: maps.Clone(s.config.GetAnnotations()),
		},
		Linux: linux,
	}
}

// usage is that of n containers that ran for d.
func usage(n int, d time.Duration) (*runtimeapi.CpuUsage, *runtimeapi.MemoryUsage) {
	now := time.Now().UnixNano()
	cores := uint64(float64(n) * float64(d.Nanoseconds()) * statsCPU)
	bytes := &runtimeapi.UInt64Value{Value: uint64(n) * statsMemory}
	cpu := &runtimeapi.CpuUsage{Timestamp: now, UsageCoreNanoSeconds: &runtimeapi.UInt64Value{Value: cores}}
	return cpu, &runtimeapi.MemoryUsage{Timestamp: now, WorkingSetBytes: bytes, UsageBytes: bytes}
}
