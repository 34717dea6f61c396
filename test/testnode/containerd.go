package testnode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
	"time"

	"golang.org/x/sys/unix"
)

// PauseRef is the name of the image that holds a pod's namespaces open.
const PauseRef = "registry.k8s.io/pause:3.10.1"

// overlayMagic is OVERLAYFS_SUPER_MAGIC of linux/magic.h.
const overlayMagic = 0x794c7630

// containerdConfig keeps every file of containerd 1.6 and its shims in the
// node's folder. restrict_oom_score_adj is for hosts whose root lacks
// CAP_SYS_RESOURCE, where a negative score cannot be written and no sandbox would
// start. The plugins left out would look for devices and kernel modules.
const containerdConfig = `version = 2
root = "{{.Root}}"
state = "{{.State}}"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.internal.v1.tracing",
  "io.containerd.tracing.processor.v1.otlp",
]

[grpc]
  address = "{{.Socket}}"

[plugins."io.containerd.internal.v1.opt"]
  path = "{{.Root}}/opt"

[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  sandbox_image = "{{.Pause}}"

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{{.CNIPlugins}}"
    conf_dir = "{{.CNIConf}}"

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{{.Snapshotter}}"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        Root = "{{.Runc}}"
`

// bootContainerd writes the configuration, connects, and starts containerd in the
// node's namespace for the first time.
func (n *Node) bootContainerd(ctx context.Context) error {
	if err := n.linkPrograms(); err != nil {
		return err
	}
	if err := n.writeContainerdConfig(); err != nil {
		return err
	}
	var err error
	if n.cri, err = dialCRI(n.lay.socket()); err != nil {
		return err
	}
	return n.StartContainerd(ctx)
}

// StartContainerd starts containerd again after [Node.KillContainerd] and waits
// until it is ready. Containers that it had started run on.
func (n *Node) StartContainerd(ctx context.Context) error {
	process, err := n.LaunchContainerd()
	if err != nil {
		return err
	}
	err = Eventually(ctx, 30*time.Second, "containerd is ready", func(ctx context.Context) error {
		if process.Exited() {
			return Fatal(errors.New("containerd ended at its start"))
		}
		return n.ContainerdReady(ctx)
	})
	if err != nil {
		return fmt.Errorf("start containerd (log: %s): %w", process.Log, err)
	}
	return nil
}

// LaunchContainerd starts containerd again and returns at once.
func (n *Node) LaunchContainerd() (*Process, error) {
	process, err := n.StartProcess("containerd", "env", "PATH="+n.path(),
		n.containerdProgram("containerd"), "--config", n.lay.path("containerd.toml"))
	if err == nil {
		n.containerd = process
	}
	return process, err
}

// ContainerdReady returns an error until containerd and the pods' network are ready.
func (n *Node) ContainerdReady(ctx context.Context) error { return n.cri.ready(ctx) }

// Containerd returns the containerd that was started last, nil without one of the
// node's own.
func (n *Node) Containerd() *Process { return n.containerd }

// linkPrograms links containerd's programs into the node's folder, since an isolated
// node may not see the folder they are in.
func (n *Node) linkPrograms() error {
	if n.cfg.Containerd == "" {
		return nil
	}
	dir := n.lay.path("containerd")
	programs, err := os.ReadDir(n.cfg.Containerd)
	if err == nil {
		err = os.Mkdir(dir, 0o755)
	}
	for _, program := range programs {
		var path string
		if err == nil {
			path, err = filepath.EvalSymlinks(filepath.Join(n.cfg.Containerd, program.Name()))
		}
		if err == nil {
			err = os.Symlink(path, filepath.Join(dir, program.Name()))
		}
	}
	if err != nil {
		return fmt.Errorf("link programs of containerd: %w", err)
	}
	n.cfg.Containerd = dir
	return nil
}

// path is the PATH of containerd, which finds its shim there.
func (n *Node) path() string {
	if n.cfg.Containerd == "" {
		return searchPath()
	}
	return n.cfg.Containerd + ":" + searchPath()
}

// containerdProgram is the path of one of containerd's programs.
func (n *Node) containerdProgram(name string) string {
	if n.cfg.Containerd == "" {
		return name
	}
	return filepath.Join(n.cfg.Containerd, name)
}

// KillContainerd ends containerd with SIGKILL. Its shims and containers run on.
func (n *Node) KillContainerd() error {
	if n.containerd == nil {
		return fmt.Errorf("kill containerd of %s: it has none of its own", n.Name())
	}
	return n.containerd.Kill()
}

func (n *Node) writeContainerdConfig() error {
	values := map[string]string{
		"Root": n.lay.path("root"), "State": n.lay.path("state"), "Socket": n.lay.socket(),
		"Runc": n.lay.path("runc"), "CNIPlugins": n.lay.path("cni-plugins"), "CNIConf": n.lay.path("cni"),
		"Pause": PauseRef, "Snapshotter": n.snapshotter,
	}
	var config bytes.Buffer
	parsed, err := template.New("containerd.toml").Option("missingkey=error").Parse(containerdConfig)
	if err == nil {
		err = parsed.Execute(&config, values)
	}
	if err != nil {
		return fmt.Errorf("write containerd configuration: %w", err)
	}
	if err := os.WriteFile(n.lay.path("containerd.toml"), config.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write containerd configuration: %w", err)
	}
	return n.writeCNI()
}

// snapshotterFor returns the containerd snapshotter that works in the folder:
// overlayfs cannot lie on another overlay, as on a machine that is a container.
func snapshotterFor(dir string) (string, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return "", fmt.Errorf("look at the file system of %s: %w", dir, err)
	}
	if fs.Type == overlayMagic {
		return "native", nil
	}
	return "overlayfs", nil
}
