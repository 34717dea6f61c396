package cni

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/containernetworking/cni/libcni"
)

// extras are what the runtime adds to a plugin's own configuration.
type extras struct {
	// prev is the result of the previous plugin or of the whole ADD; nil for none.
	prev json.RawMessage
	// args are the capability arguments of the attachment.
	args map[string]json.RawMessage
	// valid are the attachments that GC spares; nil outside of GC.
	valid []Key
}

// request derives what plugin i reads on its standard input, by
// https://github.com/containernetworking/cni/blob/main/SPEC.md#deriving-request-configuration-from-plugin-configuration:
// fields that it does not know pass through unchanged.
func (n *Network) request(i int, x extras) ([]byte, error) {
	plugin := n.list.Plugins[i]
	conf := map[string]json.RawMessage{}
	if err := json.Unmarshal(plugin.Bytes, &conf); err != nil {
		return nil, fmt.Errorf("configuration of plugin %s: %w", plugin.Network.Type, err)
	}
	for key := range conf {
		if key == "capabilities" || key == "prevResult" || strings.HasPrefix(key, "cni.dev/") {
			delete(conf, key)
		}
	}
	set := map[string]any{"name": n.Name, "cniVersion": n.Version}
	if x.prev != nil {
		set["prevResult"] = x.prev
	}
	if own := claimed(plugin, x.args); len(own) > 0 {
		set["runtimeConfig"] = own
	}
	if x.valid != nil {
		set["cni.dev/valid-attachments"] = x.valid
		// The name in early texts of the specification, which some plugins read.
		set["cni.dev/attachments"] = x.valid
	}
	for key, value := range set {
		data, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("%s for plugin %s: %w", key, plugin.Network.Type, err)
		}
		conf[key] = data
	}
	return json.Marshal(conf)
}

// claimed returns the arguments that the plugin declares to take.
func claimed(plugin *libcni.PluginConfig, args map[string]json.RawMessage) map[string]json.RawMessage {
	own := map[string]json.RawMessage{}
	for name, on := range plugin.Network.Capabilities {
		if value, ok := args[name]; ok && on {
			own[name] = value
		}
	}
	return own
}
