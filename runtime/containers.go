package runtime

import (
	"context"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// CreateContainer creates a container in a sandbox, without starting it, and
// returns its id. The image must be present. The caveat of RunPodSandbox about
// deadlines and names holds here too.
func (c *Client) CreateContainer(ctx context.Context, podSandboxID string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	o := c.op("CreateContainer", podName(sandboxConfig)+"/"+config.GetMetadata().GetName())
	resp, err := call(ctx, c, o, c.runtime.CreateContainer, &runtimeapi.CreateContainerRequest{
		PodSandboxId:  podSandboxID,
		Config:        config,
		SandboxConfig: sandboxConfig,
	})
	if err != nil {
		return "", err
	}
	if err := checkNonEmpty("container_id", resp.GetContainerId()); err != nil {
		return "", newOpError(o, err)
	}
	return resp.GetContainerId(), nil
}

// StartContainer starts a created container. A container starts once: it is an
// error for one that runs or has ended.
func (c *Client) StartContainer(ctx context.Context, id string) error {
	_, err := call(ctx, c, c.op("StartContainer", id), c.runtime.StartContainer,
		&runtimeapi.StartContainerRequest{ContainerId: id})
	return err
}

// StopContainer asks the container to end, kills it after timeout seconds, and
// returns when it has ended; a timeout of zero kills at once. It may take timeout
// seconds plus Config.Timeout. A container that does not run is not an error; an
// unknown one may be ErrNotFound, which is as good as stopped.
func (c *Client) StopContainer(ctx context.Context, id string, timeout int64) error {
	o := c.op("StopContainer", id)
	o.timeout += seconds(timeout)
	_, err := call(ctx, c, o, c.runtime.StopContainer,
		&runtimeapi.StopContainerRequest{ContainerId: id, Timeout: timeout})
	return err
}

// RemoveContainer removes the container, by force if it runs. A container that is
// gone already is not an error.
func (c *Client) RemoveContainer(ctx context.Context, id string) error {
	_, err := call(ctx, c, c.op("RemoveContainer", id), c.runtime.RemoveContainer,
		&runtimeapi.RemoveContainerRequest{ContainerId: id})
	return err
}

// ListContainers returns the containers that match filter, in any state; nil means
// all. The entries are as the runtime sent them, fields may be missing.
func (c *Client) ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	return c.listContainers(ctx, filter)
}

func (c *Client) listContainers(ctx context.Context, filter *runtimeapi.ContainerFilter, opts ...grpc.CallOption) ([]*runtimeapi.Container, error) {
	return list(ctx, c, "ListContainers",
		collect(with(c.runtime.StreamContainers, opts...), &runtimeapi.StreamContainersRequest{Filter: filter}, (*runtimeapi.StreamContainersResponse).GetContainers),
		func() ([]*runtimeapi.Container, error) {
			resp, err := call(ctx, c, c.op("ListContainers", ""), with(c.runtime.ListContainers, opts...),
				&runtimeapi.ListContainersRequest{Filter: filter})
			return resp.GetContainers(), err
		})
}

// ContainerStatus returns the status of one container; verbose adds the runtime's
// own information. The status is never nil and has id, metadata, creation time and
// image.
func (c *Client) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	o := c.op("ContainerStatus", id)
	resp, err := call(ctx, c, o, c.runtime.ContainerStatus,
		&runtimeapi.ContainerStatusRequest{ContainerId: id, Verbose: verbose})
	if err != nil {
		return nil, err
	}
	if err := checkContainer(resp.GetStatus()); err != nil {
		return nil, newOpError(o, err)
	}
	return resp, nil
}

// UpdateContainerResources changes the resource limits of a container that exists.
func (c *Client) UpdateContainerResources(ctx context.Context, id string, resources *runtimeapi.ContainerResources) error {
	_, err := call(ctx, c, c.op("UpdateContainerResources", id), c.runtime.UpdateContainerResources,
		&runtimeapi.UpdateContainerResourcesRequest{
			ContainerId: id,
			Linux:       resources.GetLinux(),
			Windows:     resources.GetWindows(),
		})
	return err
}

// ReopenContainerLog makes the runtime open the log file anew, after it was renamed.
func (c *Client) ReopenContainerLog(ctx context.Context, id string) error {
	_, err := call(ctx, c, c.op("ReopenContainerLog", id), c.runtime.ReopenContainerLog,
		&runtimeapi.ReopenContainerLogRequest{ContainerId: id})
	return err
}

// CheckpointContainer writes a checkpoint of a container. It may take the time in
// the request plus Config.Timeout.
func (c *Client) CheckpointContainer(ctx context.Context, req *runtimeapi.CheckpointContainerRequest) error {
	o := c.op("CheckpointContainer", req.GetContainerId())
	o.timeout += seconds(req.GetTimeout())
	_, err := call(ctx, c, o, c.runtime.CheckpointContainer, req)
	return err
}

// maxSeconds keeps a foreign number of seconds within a time.Duration, with room
// for the default timeout on top: about 292 years, less one.
const maxSeconds = 291 * 365 * 24 * 60 * 60

// seconds converts a number of seconds of the API; a negative one counts as zero.
func seconds(n int64) time.Duration {
	return time.Duration(min(max(n, 0), maxSeconds)) * time.Second
}
