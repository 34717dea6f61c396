package runtime

import (
	"context"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RunPodSandbox creates and starts a sandbox, with its network, and returns its
// id. runtimeHandler is empty for the default handler. It may take twice
// Config.Timeout. A call that ran into its deadline may still be carried out: look
// with ListPodSandbox before trying again, for the name is ErrAlreadyExists until
// the half-made sandbox was removed.
func (c *Client) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, runtimeHandler string) (string, error) {
	o := c.op("RunPodSandbox", podName(config))
	o.timeout *= 2
	resp, err := call(ctx, c, o, c.runtime.RunPodSandbox, &runtimeapi.RunPodSandboxRequest{
		Config:         config,
		RuntimeHandler: runtimeHandler,
	})
	if err != nil {
		return "", err
	}
	if err := checkNonEmpty("pod_sandbox_id", resp.GetPodSandboxId()); err != nil {
		return "", newOpError(o, err)
	}
	return resp.GetPodSandboxId(), nil
}

// StopPodSandbox kills what runs in the sandbox and takes down its network. A
// sandbox that is stopped already is not an error; an unknown one may be ErrNotFound,
// which is as good as stopped.
func (c *Client) StopPodSandbox(ctx context.Context, id string) error {
	_, err := call(ctx, c, c.op("StopPodSandbox", id), c.runtime.StopPodSandbox,
		&runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
	return err
}

// RemovePodSandbox removes the sandbox and by force all containers in it. A
// sandbox that is gone already is not an error.
func (c *Client) RemovePodSandbox(ctx context.Context, id string) error {
	_, err := call(ctx, c, c.op("RemovePodSandbox", id), c.runtime.RemovePodSandbox,
		&runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
	return err
}

// PodSandboxStatus returns the status of one sandbox; verbose adds the runtime's
// own information. The status is never nil and has id, metadata and creation time.
func (c *Client) PodSandboxStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	o := c.op("PodSandboxStatus", id)
	resp, err := call(ctx, c, o, c.runtime.PodSandboxStatus,
		&runtimeapi.PodSandboxStatusRequest{PodSandboxId: id, Verbose: verbose})
	if err != nil {
		return nil, err
	}
	if err := checkSandbox(resp.GetStatus()); err != nil {
		return nil, newOpError(o, err)
	}
	return resp, nil
}

// ListPodSandbox returns the sandboxes that match filter, in any state; nil means
// all. The entries are as the runtime sent them, fields may be missing.
func (c *Client) ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	return c.listSandboxes(ctx, filter)
}

func (c *Client) listSandboxes(ctx context.Context, filter *runtimeapi.PodSandboxFilter, opts ...grpc.CallOption) ([]*runtimeapi.PodSandbox, error) {
	return list(ctx, c, "ListPodSandbox",
		collect(with(c.runtime.StreamPodSandboxes, opts...), &runtimeapi.StreamPodSandboxesRequest{Filter: filter}, (*runtimeapi.StreamPodSandboxesResponse).GetPodSandboxes),
		func() ([]*runtimeapi.PodSandbox, error) {
			resp, err := call(ctx, c, c.op("ListPodSandbox", ""), with(c.runtime.ListPodSandbox, opts...),
				&runtimeapi.ListPodSandboxRequest{Filter: filter})
			return resp.GetItems(), err
		})
}

// PortForward prepares forwarding of ports of a sandbox and returns the URL to
// connect to.
func (c *Client) PortForward(ctx context.Context, req *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	o := c.op("PortForward", req.GetPodSandboxId())
	resp, err := call(ctx, c, o, c.runtime.PortForward, req)
	if err != nil {
		return nil, err
	}
	if err := checkNonEmpty("url", resp.GetUrl()); err != nil {
		return nil, newOpError(o, err)
	}
	return resp, nil
}

// UpdatePodSandboxResources tells the runtime the pod-level resources after they
// were changed.
func (c *Client) UpdatePodSandboxResources(ctx context.Context, req *runtimeapi.UpdatePodSandboxResourcesRequest) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	return call(ctx, c, c.op("UpdatePodSandboxResources", req.GetPodSandboxId()), c.runtime.UpdatePodSandboxResources, req)
}

// CheckpointPod writes a checkpoint of a sandbox and its containers. It has no
// limit but ctx, because the time it takes grows with the memory of the pod.
func (c *Client) CheckpointPod(ctx context.Context, req *runtimeapi.CheckpointPodRequest) error {
	_, err := call(ctx, c, operation{name: "CheckpointPod", id: req.GetPodSandboxId()}, c.runtime.CheckpointPod, req)
	return err
}

// RestorePod makes a sandbox and its containers from a checkpoint. It has no limit
// but ctx, as CheckpointPod.
func (c *Client) RestorePod(ctx context.Context, req *runtimeapi.RestorePodRequest) (*runtimeapi.RestorePodResponse, error) {
	return call(ctx, c, operation{name: "RestorePod", id: podName(req.GetConfig())}, c.runtime.RestorePod, req)
}

// podName is "namespace/name" of a sandbox to be.
func podName(config *runtimeapi.PodSandboxConfig) string {
	m := config.GetMetadata()
	return m.GetNamespace() + "/" + m.GetName()
}
