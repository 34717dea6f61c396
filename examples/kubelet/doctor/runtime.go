package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime"
)

// startRuntime is what to do about a runtime that does not answer.
const startRuntime = "start the runtime, or correct containerRuntimeEndpoint: systemctl status containerd (or crio)"

// lookAtRuntime asks the container runtime what it is and whether it is ready.
func lookAtRuntime(ctx context.Context, n *Node, r *report) {
	if !lookAtSocket(ctx, n, r) {
		return
	}
	client, err := n.dial(ctx)
	if errors.Is(err, runtime.ErrUnimplemented) {
		r.problem("enable its CRI service: in containerd's config.toml cri must not be among disabled_plugins", "%s", err)
		return
	}
	if err != nil {
		r.problem(startRuntime, "%s", err)
		return
	}
	defer client.Close() //nolint:errcheck // nothing was changed
	version, err := client.Version(ctx, "")
	if err != nil {
		r.problem(startRuntime, "%s", err)
		return
	}
	status, err := client.Status(ctx, false)
	if err != nil {
		r.problem(startRuntime, "%s", err)
		return
	}
	for _, c := range status.GetStatus().GetConditions() {
		if c.GetType() == runtimeapi.RuntimeReady && !c.GetStatus() {
			r.problem("see the log of the runtime", "%s says it is not ready: %s: %s", version.GetRuntimeName(), c.GetReason(), c.GetMessage())
		}
	}
	if r.fine() {
		r.ok("%s %s, CRI %s, at %s", version.GetRuntimeName(), version.GetRuntimeVersion(), version.GetRuntimeApiVersion(), n.Kubelet.ContainerRuntimeEndpoint)
	}
}

// lookAtSocket says why there is no connection to the runtime.
func lookAtSocket(ctx context.Context, n *Node, r *report) bool {
	path, ok := strings.CutPrefix(n.Kubelet.ContainerRuntimeEndpoint, "unix://")
	if !ok {
		r.problem("write it as unix:///run/containerd/containerd.sock", "containerRuntimeEndpoint is %q", n.Kubelet.ContainerRuntimeEndpoint)
		return false
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		conn.Close()
		return true
	case errors.Is(err, fs.ErrNotExist):
		r.problem(startRuntime, "there is no socket %s", path)
	case errors.Is(err, syscall.ECONNREFUSED):
		r.problem(startRuntime, "nobody listens on the socket %s: its runtime has ended", path)
	case errors.Is(err, fs.ErrPermission):
		r.problem("run the doctor as root", "the socket %s may not be used", path)
	default:
		r.problem(startRuntime, "%s", err)
	}
	return false
}

func (n *Node) dial(ctx context.Context) (*runtime.Client, error) {
	return runtime.Dial(ctx, n.Kubelet.ContainerRuntimeEndpoint, runtime.Config{Timeout: n.Timeout})
}

// about is what a runtime tells of its own configuration: that of containerd, by its names.
type about struct {
	CNI struct {
		ConfDir string   `json:"confDir"`
		BinDir  string   `json:"binDir"`
		BinDirs []string `json:"binDirs"`
	} `json:"cni"`
	Containerd struct {
		DefaultRuntimeName string `json:"defaultRuntimeName"`
		Runtimes           map[string]struct {
			Options map[string]any `json:"options"`
		} `json:"runtimes"`
	} `json:"containerd"`
}

// aboutRuntime asks for it; what other runtimes tell is not understood, and empty.
func (n *Node) aboutRuntime(ctx context.Context, c *runtime.Client) (*runtimeapi.StatusResponse, about, error) {
	var a about
	status, err := c.Status(ctx, true)
	if err != nil {
		return nil, a, err
	}
	if text := status.GetInfo()["config"]; text != "" {
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			a = about{}
		}
	}
	return status, a, nil
}

// driver returns the cgroup driver in the configuration, empty if that is not told.
func (a about) driver() string {
	name := a.Containerd.DefaultRuntimeName
	if name == "" {
		name = "runc"
	}
	switch a.Containerd.Runtimes[name].Options["SystemdCgroup"] {
	case true:
		return "systemd"
	case false:
		return "cgroupfs"
	}
	return ""
}

// lookAtCgroupDriver compares what runtime and configuration say of who names cgroups. The
// kubelet follows a runtime that answers its call for it; only beside one that has no such
// call the configuration has to say the same.
func lookAtCgroupDriver(ctx context.Context, n *Node, r *report) {
	client, err := n.dial(ctx)
	if err != nil {
		r.skip("the runtime does not answer")
		return
	}
	defer client.Close() //nolint:errcheck // nothing was changed
	driver, followed, err := n.runtimeDriver(ctx, client)
	switch own := n.Kubelet.CgroupDriver; {
	case err != nil:
		r.skip("the runtime does not answer: %s", err)
	case driver == "":
		r.ok("%s; the runtime does not tell its own", own)
	case driver != own && followed:
		r.ok("%s of the runtime is used, not %s of the configuration", driver, own)
	case driver != own:
		r.problem("set cgroupDriver: "+driver+", or SystemdCgroup in the runtime's configuration: two drivers beside each other lose track of memory and processes",
			"the runtime has %s, the configuration %s", driver, own)
	default:
		r.ok("%s, as in the runtime", own)
	}
	if _, err := os.Stat("/run/systemd/system"); errors.Is(err, fs.ErrNotExist) && driver == "systemd" {
		r.problem("use the driver cgroupfs in the runtime", "the runtime has systemd make cgroups, and systemd does not run on this machine")
	}
}

// runtimeDriver asks the runtime for its driver; runtimes that have no call for it may tell
// it with their configuration, which no kubelet follows. It is empty if it is not told.
func (n *Node) runtimeDriver(ctx context.Context, c *runtime.Client) (driver string, followed bool, err error) {
	conf, err := c.RuntimeConfig(ctx)
	if err == nil && conf.GetLinux() != nil {
		if conf.GetLinux().GetCgroupDriver() == runtimeapi.CgroupDriver_SYSTEMD {
			return "systemd", true, nil
		}
		return "cgroupfs", true, nil
	}
	if err != nil && !errors.Is(err, runtime.ErrUnimplemented) {
		return "", false, err
	}
	_, a, err := n.aboutRuntime(ctx, c)
	return a.driver(), false, err
}
