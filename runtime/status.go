package runtime

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Version returns name and version of the runtime. apiVersion is what the client
// states of itself; runtimes ignore it.
func (c *Client) Version(ctx context.Context, apiVersion string) (*runtimeapi.VersionResponse, error) {
	o := c.op("Version", "")
	resp, err := call(ctx, c, o, c.runtime.Version, &runtimeapi.VersionRequest{Version: apiVersion})
	if err != nil {
		return nil, err
	}
	if err := checkVersion(resp); err != nil {
		return nil, newOpError(o, err)
	}
	return resp, nil
}

// Status returns the conditions and features of the runtime; verbose adds its own
// information. The conditions RuntimeReady and NetworkReady are always among them.
func (c *Client) Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error) {
	o := c.op("Status", "")
	resp, err := call(ctx, c, o, c.runtime.Status, &runtimeapi.StatusRequest{Verbose: verbose})
	if err != nil {
		return nil, err
	}
	if err := checkRuntimeStatus(resp); err != nil {
		return nil, newOpError(o, err)
	}
	return resp, nil
}

// RuntimeConfig returns the configuration of the runtime that a node agent must
// follow, such as the cgroup driver. containerd has it from 2.0; earlier ones give
// ErrUnimplemented.
func (c *Client) RuntimeConfig(ctx context.Context) (*runtimeapi.RuntimeConfigResponse, error) {
	return call(ctx, c, c.op("RuntimeConfig", ""), c.runtime.RuntimeConfig, &runtimeapi.RuntimeConfigRequest{})
}

// UpdateRuntimeConfig tells the runtime the node's pod address ranges.
func (c *Client) UpdateRuntimeConfig(ctx context.Context, config *runtimeapi.RuntimeConfig) error {
	_, err := call(ctx, c, c.op("UpdateRuntimeConfig", ""), c.runtime.UpdateRuntimeConfig,
		&runtimeapi.UpdateRuntimeConfigRequest{RuntimeConfig: config})
	return err
}
