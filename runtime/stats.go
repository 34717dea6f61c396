package runtime

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ContainerStats returns the resource usage of one container.
func (c *Client) ContainerStats(ctx context.Context, id string) (*runtimeapi.ContainerStats, error) {
	o := c.op("ContainerStats", id)
	resp, err := call(ctx, c, o, c.runtime.ContainerStats, &runtimeapi.ContainerStatsRequest{ContainerId: id})
	if err != nil {
		return nil, err
	}
	if resp.GetStats() == nil {
		return nil, newOpError(o, missing("stats"))
	}
	return resp.GetStats(), nil
}

// ListContainerStats returns the usage of the containers that match filter; nil means
// all. Those that do not run may be among them, without CPU and memory.
func (c *Client) ListContainerStats(ctx context.Context, filter *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	return list(ctx, c, "ListContainerStats",
		collect(c.runtime.StreamContainerStats, &runtimeapi.StreamContainerStatsRequest{Filter: filter}, (*runtimeapi.StreamContainerStatsResponse).GetContainerStats),
		func() ([]*runtimeapi.ContainerStats, error) {
			resp, err := call(ctx, c, c.op("ListContainerStats", ""), c.runtime.ListContainerStats,
				&runtimeapi.ListContainerStatsRequest{Filter: filter})
			return resp.GetStats(), err
		})
}

// PodSandboxStats returns the resource usage of one sandbox.
func (c *Client) PodSandboxStats(ctx context.Context, id string) (*runtimeapi.PodSandboxStats, error) {
	o := c.op("PodSandboxStats", id)
	resp, err := call(ctx, c, o, c.runtime.PodSandboxStats, &runtimeapi.PodSandboxStatsRequest{PodSandboxId: id})
	if err != nil {
		return nil, err
	}
	if resp.GetStats() == nil {
		return nil, newOpError(o, missing("stats"))
	}
	return resp.GetStats(), nil
}

// ListPodSandboxStats returns the usage of the running sandboxes that match filter;
// nil means all.
func (c *Client) ListPodSandboxStats(ctx context.Context, filter *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error) {
	return list(ctx, c, "ListPodSandboxStats",
		collect(c.runtime.StreamPodSandboxStats, &runtimeapi.StreamPodSandboxStatsRequest{Filter: filter}, (*runtimeapi.StreamPodSandboxStatsResponse).GetPodSandboxStats),
		func() ([]*runtimeapi.PodSandboxStats, error) {
			resp, err := call(ctx, c, c.op("ListPodSandboxStats", ""), c.runtime.ListPodSandboxStats,
				&runtimeapi.ListPodSandboxStatsRequest{Filter: filter})
			return resp.GetStats(), err
		})
}

// ListMetricDescriptors describes the metrics of ListPodSandboxMetrics.
func (c *Client) ListMetricDescriptors(ctx context.Context) ([]*runtimeapi.MetricDescriptor, error) {
	resp, err := call(ctx, c, c.op("ListMetricDescriptors", ""), c.runtime.ListMetricDescriptors,
		&runtimeapi.ListMetricDescriptorsRequest{})
	return resp.GetDescriptors(), err
}

// ListPodSandboxMetrics returns the metrics of all running sandboxes.
func (c *Client) ListPodSandboxMetrics(ctx context.Context) ([]*runtimeapi.PodSandboxMetrics, error) {
	return list(ctx, c, "ListPodSandboxMetrics",
		collect(c.runtime.StreamPodSandboxMetrics, &runtimeapi.StreamPodSandboxMetricsRequest{}, (*runtimeapi.StreamPodSandboxMetricsResponse).GetPodSandboxMetrics),
		func() ([]*runtimeapi.PodSandboxMetrics, error) {
			resp, err := call(ctx, c, c.op("ListPodSandboxMetrics", ""), c.runtime.ListPodSandboxMetrics,
				&runtimeapi.ListPodSandboxMetricsRequest{})
			return resp.GetPodMetrics(), err
		})
}
