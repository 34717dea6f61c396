package doctor

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/cni"
)

// lookAtNetwork looks for the network of pods: its configuration, its plugins, and what the
// runtime says of it.
func lookAtNetwork(ctx context.Context, n *Node, r *report) {
	where := n.CNI
	var condition *runtimeapi.RuntimeCondition
	if client, err := n.dial(ctx); err == nil {
		defer client.Close() //nolint:errcheck // nothing was changed
		if status, a, err := n.aboutRuntime(ctx, client); err == nil {
			where = a.network(where)
			condition = networkCondition(status)
		}
	}
	network, err := cni.Load(where.ConfDir)
	if err != nil {
		r.problem("install a network for pods, or wait until its pod on this node has written the file", "%s", err)
	} else {
		lookAtPlugins(network, where.BinDirs, r)
	}
	switch {
	case condition != nil && !condition.GetStatus():
		r.problem("see the log of the runtime", "the runtime says that the network is not ready: %s: %s", condition.GetReason(), condition.GetMessage())
	case r.fine():
		r.ok("%s in %s, plugins in %s", network.Name, network.File, strings.Join(where.BinDirs, ", "))
	}
}

// network returns where the runtime looks, as far as it tells.
func (a about) network(usual CNI) CNI {
	if a.CNI.ConfDir != "" {
		usual.ConfDir = a.CNI.ConfDir
	}
	if len(a.CNI.BinDirs) > 0 {
		usual.BinDirs = a.CNI.BinDirs
	} else if a.CNI.BinDir != "" {
		usual.BinDirs = []string{a.CNI.BinDir}
	}
	return usual
}

func networkCondition(status *runtimeapi.StatusResponse) *runtimeapi.RuntimeCondition {
	for _, c := range status.GetStatus().GetConditions() {
		if c.GetType() == runtimeapi.NetworkReady {
			return c
		}
	}
	return nil
}

// lookAtPlugins looks for each program that the network needs.
func lookAtPlugins(network *cni.Network, dirs []string, r *report) {
	for _, p := range network.Plugins {
		for _, name := range []string{p.Type, p.IPAM, p.Delegate} {
			if name != "" && !executable(dirs, name) {
				r.problem("install the plugin, or correct the network's file", "%s needs the plugin %s, which is not in %s", network.File, name, strings.Join(dirs, ", "))
			}
		}
	}
}

func executable(dirs []string, name string) bool {
	for _, dir := range dirs {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return true
		}
	}
	return false
}
