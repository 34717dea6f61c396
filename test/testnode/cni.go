package testnode

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// quickPlugin is a CNI plugin that runs before the interface is made. Without it
// each pod with an IPv6 address would start two seconds later: the kernel would
// ask for that long whether somebody else has the address. Nobody has.
const quickPlugin = `#!/bin/sh
case $CNI_COMMAND in
ADD)
	nsenter --net="$CNI_NETNS" sh -c 'echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad' || exit 1
	echo '{"cniVersion": "1.0.0"}' ;;
VERSION)
	echo '{"cniVersion": "1.0.0", "supportedVersions": ["1.0.0"]}' ;;
esac
`

// pluginNames are the plugins of the distribution that a node uses.
func pluginNames() []string { return []string{"ptp", "bridge", "host-local", "portmap", "loopback"} }

// cniFolders are where distributions put the CNI plugins: Debian, and the place
// that the CNI documentation names.
func cniFolders() []string { return []string{"/usr/lib/cni", "/opt/cni/bin"} }

// findCNIPlugins returns the folder that holds the distribution's CNI plugins.
func findCNIPlugins() (string, error) {
	for _, dir := range cniFolders() {
		complete := true
		for _, plugin := range pluginNames() {
			if _, err := os.Stat(filepath.Join(dir, plugin)); err != nil {
				complete = false
			}
		}
		if complete {
			return dir, nil
		}
	}
	return "", fmt.Errorf("find CNI plugins %s: not in %s",
		strings.Join(pluginNames(), ", "), strings.Join(cniFolders(), " or "))
}

// writeCNI fills the node's folders of CNI plugins and CNI configuration.
func (n *Node) writeCNI() error {
	l := n.lay
	for _, dir := range []string{"cni", "cni-plugins"} {
		if err := os.MkdirAll(l.path(dir), 0o755); err != nil {
			return fmt.Errorf("make folder for CNI: %w", err)
		}
	}
	source, err := findCNIPlugins()
	if err != nil {
		return err
	}
	for _, plugin := range pluginNames() {
		if err := os.Symlink(filepath.Join(source, plugin), l.path("cni-plugins", plugin)); err != nil {
			return fmt.Errorf("link CNI plugin: %w", err)
		}
	}
	if err := os.WriteFile(l.path("cni-plugins", "quick"), []byte(quickPlugin), 0o755); err != nil {
		return fmt.Errorf("write CNI plugin: %w", err)
	}
	return n.WriteCNIConfig()
}

// WriteCNIConfig writes the node's CNI configuration, for the first time or after
// [Node.RemoveCNIConfig].
func (n *Node) WriteCNIConfig() error {
	plugins := n.cfg.Plugins
	if plugins == nil {
		plugins = routedLinks
	}
	config := map[string]any{"cniVersion": "1.0.0", "name": n.lay.network(), "plugins": plugins(n)}
	data, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return fmt.Errorf("write CNI configuration: %w", err)
	}
	// Written in place: containerd 1.6 does not look at a file that is renamed into its
	// folder.
	if err := os.WriteFile(n.cniConfig(), data, 0o600); err != nil {
		return fmt.Errorf("write CNI configuration: %w", err)
	}
	return nil
}

// RemoveCNIConfig takes the node's CNI configuration away: the runtime reports that
// the network is not ready.
func (n *Node) RemoveCNIConfig() error {
	if err := os.Remove(n.cniConfig()); err != nil {
		return fmt.Errorf("remove CNI configuration: %w", err)
	}
	return nil
}

func (n *Node) cniConfig() string { return n.lay.path("cni", "10-nodekit.conflist") }

// routedLinks is a chain of the plugins ptp, host-local and portmap. With ptp each
// pod has a routed link of its own. On a bridge, answers between two pods would
// pass below the packet filter unless the host loaded br_netfilter, and a test node
// changes nothing on its host.
func routedLinks(n *Node) []map[string]any {
	var plugins []map[string]any
	ranges := [][]map[string]string{{{"subnet": PodIPv4Range}}}
	routes := []map[string]string{{"dst": "0.0.0.0/0"}}
	if hasIPv6() {
		ranges = append(ranges, []map[string]string{{"subnet": PodIPv6Range}})
		routes = append(routes, map[string]string{"dst": "::/0"})
		plugins = append(plugins, map[string]any{"type": "quick"})
	}
	return append(plugins,
		map[string]any{"type": "ptp", "ipam": map[string]any{
			"type": "host-local", "ranges": ranges, "routes": routes, "dataDir": n.lay.path("ipam"),
		}},
		map[string]any{"type": "portmap", "capabilities": map[string]bool{"portMappings": true}})
}
