package node

import (
	"context"
	"errors"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime"
)

// cgroupDriver returns who names cgroups. The runtime knows: it would refuse names of the
// other kind, and a pod's cgroup would be looked for where it is not. Runtimes that do not
// say leave it to the configuration. One that fails to say is starting, and is asked again:
// what is decided here holds as long as the node runs.
func (n *Node) cgroupDriver(ctx context.Context, rt Runtime) (string, error) {
	own := n.cfg.Kubelet.CgroupDriver
	c, err := rt.RuntimeConfig(ctx)
	switch {
	case errors.Is(err, runtime.ErrUnimplemented):
		return own, nil
	case err != nil:
		return "", fmt.Errorf("ask for the cgroup driver: %w", err)
	case c.GetLinux() == nil:
		return own, nil // its driver would read as systemd
	}
	driver := driverCgroupfs
	if c.GetLinux().GetCgroupDriver() == runtimeapi.CgroupDriver_SYSTEMD {
		driver = driverSystemd
	}
	if own != "" && own != driver {
		n.log.Info("cgroup driver of the container runtime is used, not that of the configuration", "driver", driver, "configured", own)
	}
	return driver, nil
}
