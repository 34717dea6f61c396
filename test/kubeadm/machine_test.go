package kubeadm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// machine is a node of the cluster's network with a container runtime, as kubeadm finds one:
// with folders of its own at /etc/kubernetes and /var/lib/kubelet, a kubelet in PATH, and
// nothing that starts services.
type machine struct {
	*cluster.Node
	t       *testing.T
	bin     string
	kubeadm string
	service *testnode.Process
}

// privateEtc gives the machine an /etc of its own, without Kubernetes.
const privateEtc = `set -e
cp -a /etc "$1"
rm -rf "$1/kubernetes"
mount --bind "$1" /etc
mkdir /etc/kubernetes`

// newMachine makes one.
func newMachine(t *testing.T, c *cluster.Cluster) *machine {
	t.Helper()
	n, err := c.AddNode(t.Context(), cluster.NodeConfig{Kubelet: cluster.None, Proxy: cluster.None})
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{Node: n, t: t, bin: n.Dir("bin")}
	if m.kubeadm, err = testnode.ToolOf(t.Context(), "kubeadm", "test/tools/kubernetes"); err != nil {
		t.Fatal(err)
	}
	if _, err := testnode.Build(t.Context(), m.bin, "examples/kubelet"); err != nil {
		t.Fatal(err)
	}
	// What kubeadm and the kubelet call, and no systemctl.
	for _, name := range []string{"mount", "umount", "losetup", "cp", "iptables", "ip6tables", "sh", "unshare", "find", "env"} {
		path, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(path, filepath.Join(m.bin, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	m.run("sh", "-c", privateEtc, "etc", n.Dir("etc"))
	return m
}

// command returns a command on the machine, which finds the machine's programs alone.
func (m *machine) command(ctx context.Context, args ...string) *exec.Cmd {
	return m.Command(ctx, "env", append([]string{"PATH=" + m.bin}, args...)...)
}

// run runs a command of this host on the machine, which has to succeed.
func (m *machine) run(name string, args ...string) string {
	m.t.Helper()
	return output(m.t, m.Command(m.t.Context(), name, args...))
}

func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out)
}

// read reads a file as the machine sees it.
func (m *machine) read(ctx context.Context, path string) (string, error) {
	out, err := m.Command(ctx, "cat", path).Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return string(out), nil
}

// serviceScript starts the kubelet as the unit does: $1 has the kernel's settings for it.
const serviceScript = `set -e
settings=$1
shift
` + testnode.CoverSettings + `exec "$@"`

// startService starts the kubelet by the unit and the drop-in of this repository, with what
// kubeadm has written for it.
func (m *machine) startService(ctx context.Context) error {
	flags, err := m.unitFlags(ctx)
	if err != nil {
		return err
	}
	settings := m.Dir("settings")
	if err := testnode.CopySettings(settings); err != nil {
		return err
	}
	args := append([]string{"--mount", "--propagation", "unchanged", "sh", "-c", serviceScript, "service", settings, filepath.Join(m.bin, "kubelet")}, flags...)
	m.service, err = m.StartProcess("kubelet", "unshare", args...)
	return err
}

// unitFlags returns the flags that systemd would call the kubelet with.
func (m *machine) unitFlags(ctx context.Context) ([]string, error) {
	data, err := os.ReadFile("../../examples/kubelet/systemd/kubelet.service.d/10-kubeadm.conf")
	if err != nil {
		return nil, err
	}
	written, err := m.read(ctx, "/var/lib/kubelet/kubeadm-flags.env")
	if err != nil {
		return nil, err
	}
	variables := map[string]string{}
	for _, found := range regexp.MustCompile(`(?m)^(?:Environment=")?(KUBELET_\w+)=(.*?)"?$`).FindAllStringSubmatch(string(data)+"\n"+written, -1) {
		variables[found[1]] = strings.Trim(found[2], `"`)
	}
	starts := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/kubelet (.*)$`).FindStringSubmatch(string(data))
	if starts == nil {
		return nil, fmt.Errorf("the drop-in does not start a kubelet: %s", data)
	}
	return strings.Fields(os.Expand(starts[1], func(name string) string { return variables[name] })), nil
}

// writeConfig writes documents of kubeadm's configuration to a file on the machine.
func writeConfig(t *testing.T, path string, documents ...map[string]any) string {
	t.Helper()
	var texts []string
	for _, d := range documents {
		data, err := json.MarshalIndent(d, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(data))
	}
	if err := os.WriteFile(path, []byte(strings.Join(texts, "\n---\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
