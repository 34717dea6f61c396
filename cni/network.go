package cni

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/utils"
	"github.com/containernetworking/cni/pkg/version"
)

// Network is a network configuration: a chain of plugins. It is read only; make
// one with Load, Parse or Loopback, or take it from a Watcher.
type Network struct {
	// Name is unique among the networks of a node.
	Name string
	// Version is that of the CNI specification in force for all plugins.
	Version string
	// File is where the configuration was read, empty for Parse and Loopback.
	File string
	// Plugins are in the order of ADD.
	Plugins []Plugin
	// DisableCheck makes Check succeed without asking the plugins, DisableGC leaves
	// the plugins out of GC.
	DisableCheck, DisableGC bool

	list *libcni.NetworkConfigList
}

// Plugin is one link of a chain.
type Plugin struct {
	// Type is the name of the program.
	Type string
	// IPAM is the name of the program that manages addresses for this plugin, empty
	// if there is none.
	IPAM string
	// Delegate is the name of the plugin that this one runs with a configuration of
	// its own, as flannel and multus do; empty if the configuration names none.
	Delegate string
	// Capabilities are the names of the capability arguments it takes, sorted.
	Capabilities []string
}

// versions are those of the CNI specification that have chains of plugins, oldest
// first (https://github.com/containernetworking/cni/blob/main/SPEC.md#version).
// The oldest differs from 0.3.1 by a typing error in the text only.
func versions() []string { return []string{"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"} }

// Parse reads a network configuration: a list, or a single plugin as in the files
// named .conf, which becomes a list of one. Files beside it are not looked for,
// so that a list must have its plugins inside.
func Parse(data []byte) (*Network, error) {
	return parse(data, nil)
}

// parse reads a configuration. More returns further plugins of the network with
// this name, for lists that may take plugins from elsewhere.
func parse(data []byte, more func(name string) ([]*libcni.PluginConfig, error)) (*Network, error) {
	list, err := parseList(data)
	if err != nil {
		return nil, err
	}
	if err := utils.ValidateNetworkName(list.Name); err != nil {
		return nil, fmt.Errorf("name %q: %s", list.Name, err.Msg)
	}
	if !slices.Contains(versions(), list.CNIVersion) {
		return nil, fmt.Errorf("cniVersion is %q, want one of %s (a configuration without it means 0.1.0, which has no chains)",
			list.CNIVersion, strings.Join(versions(), ", "))
	}
	if more != nil && !list.LoadOnlyInlinedPlugins {
		plugins, err := more(list.Name)
		if err != nil {
			return nil, err
		}
		list.Plugins = append(list.Plugins, plugins...)
	}
	if len(list.Plugins) == 0 {
		return nil, fmt.Errorf("network %q has no plugins", list.Name)
	}
	return newNetwork(list)
}

// parseList reads either form.
func parseList(data []byte) (*libcni.NetworkConfigList, error) {
	var form struct {
		Type    string            `json:"type"`
		Plugins []json.RawMessage `json:"plugins"`
		// A list may have all its plugins elsewhere.
		OnlyInlined *json.RawMessage `json:"loadOnlyInlinedPlugins"`
	}
	if err := json.Unmarshal(data, &form); err != nil {
		return nil, explainJSON(data, err)
	}
	if form.Type == "" || form.Plugins != nil || form.OnlyInlined != nil {
		list, err := libcni.NetworkConfFromBytes(data)
		if err != nil {
			return nil, err
		}
		for i, p := range list.Plugins {
			p.Bytes = form.Plugins[i] // as written: the library's copy has its numbers rounded
		}
		return list, nil
	}
	single, err := libcni.NetworkPluginConfFromBytes(data)
	if err != nil {
		return nil, err
	}
	return libcni.ConfListFromConf(single) //nolint:staticcheck // the deprecated form is what installers of old still write
}

// explainJSON adds the line to a syntax error.
func explainJSON(data []byte, err error) error {
	if len(strings.TrimSpace(string(data))) == 0 {
		return errors.New("the file is empty")
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		line := 1 + strings.Count(string(data[:min(int(syntax.Offset), len(data))]), "\n")
		return fmt.Errorf("line %d: %w", line, err)
	}
	return err
}

// newNetwork checks the plugins and writes the list anew, complete in itself, so
// that a record of it needs no other file.
func newNetwork(list *libcni.NetworkConfigList) (*Network, error) {
	n := &Network{
		Name: list.Name, Version: list.CNIVersion,
		DisableCheck: list.DisableCheck, DisableGC: list.DisableGC, list: list,
	}
	raw := make([]json.RawMessage, len(list.Plugins))
	for i, p := range list.Plugins {
		plugin, err := describe(p)
		if err != nil {
			return nil, fmt.Errorf("plugins[%d]: %w", i, err)
		}
		n.Plugins = append(n.Plugins, plugin)
		raw[i] = p.Bytes
	}
	data, err := json.Marshal(map[string]any{
		"cniVersion": list.CNIVersion, "name": list.Name, "disableCheck": list.DisableCheck,
		"disableGC": list.DisableGC, "loadOnlyInlinedPlugins": true, "plugins": raw,
	})
	if err != nil {
		return nil, fmt.Errorf("network %q: %w", list.Name, err)
	}
	list.LoadOnlyInlinedPlugins, list.Bytes = true, data
	return n, nil
}

// describe reads what the invoker needs to know about a plugin.
func describe(p *libcni.PluginConfig) (Plugin, error) {
	var conf struct {
		Delegate struct {
			Type string `json:"type"`
		} `json:"delegate"`
	}
	// Whatever a plugin means by "delegate", it is its own business.
	_ = json.Unmarshal(p.Bytes, &conf)
	plugin := Plugin{Type: p.Network.Type, IPAM: p.Network.IPAM.Type, Delegate: conf.Delegate.Type}
	if plugin.Type == "flannel" && plugin.Delegate == "" {
		plugin.Delegate = "bridge" // https://github.com/flannel-io/cni-plugin#operation
	}
	for _, program := range []struct{ field, name string }{
		{"type", plugin.Type}, {"ipam.type", plugin.IPAM}, {"delegate.type", plugin.Delegate},
	} {
		if program.name != "" && !isFileName(program.name) {
			return Plugin{}, fmt.Errorf("%s is %q, must be the name of a program without a path", program.field, program.name)
		}
	}
	for name, on := range p.Network.Capabilities {
		if on {
			plugin.Capabilities = append(plugin.Capabilities, name)
		}
	}
	slices.Sort(plugin.Capabilities)
	return plugin, nil
}

func isFileName(s string) bool {
	return s == filepath.Base(s) && s != "." && s != ".." && !strings.ContainsAny(s, "/\\\x00")
}

// Capabilities returns the names of the capability arguments that some plugin of
// the network takes, sorted.
func (n *Network) Capabilities() []string {
	var all []string
	for _, p := range n.Plugins {
		all = append(all, p.Capabilities...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Config returns the whole configuration as a list in JSON, with every plugin
// inside: it is the same for two networks that work in the same way.
func (n *Network) Config() []byte { return slices.Clone(n.list.Bytes) }

// String names the network with its plugins, like "pods (CNI 1.0.0: bridge+host-local, portmap)".
func (n *Network) String() string {
	names := make([]string, len(n.Plugins))
	for i, p := range n.Plugins {
		names[i] = p.String()
	}
	return fmt.Sprintf("%s (CNI %s: %s)", n.Name, n.Version, strings.Join(names, ", "))
}

// String names the plugin with the programs it runs, like "bridge+host-local".
func (p Plugin) String() string {
	names := slices.DeleteFunc([]string{p.Type, p.Delegate, p.IPAM}, func(s string) bool { return s == "" })
	return strings.Join(names, "+")
}

// atLeast reports whether the network's version has what came with v.
func (n *Network) atLeast(v string) bool {
	ok, err := version.GreaterThanOrEqualTo(n.Version, v)
	return err == nil && ok
}

// Loopback returns the network that brings up the interface lo through the plugin
// named loopback: attach it with the IfName "lo". Its version is the oldest with
// CHECK, which every release of the plugin since 2019 speaks. Namespaces made by
// NewNetNS have lo up already.
func Loopback() *Network {
	const name, version, kind = "cni-loopback", "0.4.0", "loopback"
	plugin := &libcni.PluginConfig{Network: &types.PluginConf{Type: kind}, Bytes: []byte(`{"type":"` + kind + `"}`)}
	return &Network{Name: name, Version: version, Plugins: []Plugin{{Type: kind}}, list: &libcni.NetworkConfigList{
		Name: name, CNIVersion: version, LoadOnlyInlinedPlugins: true, Plugins: []*libcni.PluginConfig{plugin},
		Bytes: []byte(`{"cniVersion":"` + version + `","name":"` + name + `","plugins":[{"type":"` + kind + `"}]}`),
	}}
}
