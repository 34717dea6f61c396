package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nodekit-go/nodekit/examples/kubelet/machine"
)

// lookAtSwap looks whether the machine swaps, and may.
func lookAtSwap(_ context.Context, n *Node, r *report) {
	swaps, err := machine.Swaps(n.Proc)
	switch {
	case err != nil:
		r.skip("%s", err)
	case len(swaps) > 0 && *n.Kubelet.FailSwapOn:
		r.problem("swapoff -a, and take it out of /etc/fstab; or set failSwapOn: false", "the machine swaps to %s, and the kubelet does not start so", strings.Join(swaps, ", "))
	case len(swaps) > 0:
		r.ok("the machine swaps to %s, which failSwapOn: false allows", strings.Join(swaps, ", "))
	default:
		r.ok("off")
	}
}

// lookAtKernel looks at settings that pods and kubelet need.
func lookAtKernel(_ context.Context, n *Node, r *report) {
	differences, err := machine.Differences(n.Proc)
	if err != nil {
		r.skip("%s", oneLine(err.Error()))
	}
	for _, d := range differences {
		if n.Kubelet.ProtectKernelDefaults {
			r.problem("set it in /etc/sysctl.d, or take protectKernelDefaults out", "%s: the kubelet does not start so", d)
		}
	}
	for _, name := range []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"} {
		value, err := os.ReadFile(filepath.Join(n.Proc, "sys", name))
		forwards := strings.TrimSpace(string(value)) == "1"
		if err == nil && !forwards && (strings.Contains(name, "ipv4") || hasIPv6(n.Kubelet.ClusterDNS)) {
			r.problem("set it in /etc/sysctl.d: pods reach nobody beyond this machine without", "%s is 0, want 1", strings.ReplaceAll(name, "/", "."))
		}
	}
	if r.fine() && len(r.findings) == 0 {
		r.ok("%d settings are looked at", len(machine.Settings())+1)
	}
}

func hasIPv6(addresses []string) bool {
	return slices.ContainsFunc(addresses, func(a string) bool { return strings.Contains(a, ":") })
}

// lookAtCgroups looks which version of cgroups the machine has, and for the controllers that
// pods need.
func lookAtCgroups(_ context.Context, n *Node, r *report) {
	need := []string{"cpu", "memory", "pids"}
	data, err := os.ReadFile(filepath.Join(n.Cgroups, "cgroup.controllers"))
	switch {
	case err == nil:
		have := strings.Fields(string(data))
		if missing := without(need, have); len(missing) > 0 {
			r.problem("enable them: cgroup_enable=memory on the kernel's command line, or Delegate=yes for the service that this runs in", "version 2 without the controllers %s", strings.Join(missing, ", "))
			return
		}
		r.ok("version 2, with %s", strings.Join(have, ", "))
	case !errors.Is(err, fs.ErrNotExist):
		r.skip("%s", err)
	default:
		lookAtCgroupsV1(n, need, r)
	}
}

func lookAtCgroupsV1(n *Node, need []string, r *report) {
	var have []string
	for _, name := range need {
		if info, err := os.Stat(filepath.Join(n.Cgroups, name)); err == nil && info.IsDir() {
			have = append(have, name)
		}
	}
	if missing := without(need, have); len(missing) > 0 {
		r.problem("mount them: cgroups-mount, or systemd.unified_cgroup_hierarchy=1 on the kernel's command line", "there are no cgroups %s in %s", strings.Join(missing, ", "), n.Cgroups)
		return
	}
	r.ok("version 1, with %s; version 2 does more", strings.Join(have, ", "))
}

func without(list, of []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(of, s) })
}
