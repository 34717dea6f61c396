package cluster

import (
	"encoding/json"
	"fmt"
	"os"
)

// writeKubeconfig writes a kubeconfig that holds everything it needs. JSON is YAML
// as well.
func (c *Cluster) writeKubeconfig(file string, who pair) error {
	var data [3][]byte
	for i, name := range []string{c.ca.certFile(), who.cert, who.key} {
		var err error
		if data[i], err = os.ReadFile(name); err != nil {
			return fmt.Errorf("write kubeconfig: %w", err)
		}
	}
	type object = map[string]any
	config := object{
		"apiVersion":      "v1",
		"kind":            "Config",
		"current-context": "cluster",
		"clusters": []object{{"name": "cluster", "cluster": object{
			"server": c.URL(), "certificate-authority-data": data[0],
		}}},
		"users": []object{{"name": "user", "user": object{
			"client-certificate-data": data[1], "client-key-data": data[2],
		}}},
		"contexts": []object{{"name": "cluster", "context": object{"cluster": "cluster", "user": "user"}}},
	}
	return writeJSON(file, config)
}

func writeJSON(file string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err == nil {
		err = os.WriteFile(file, append(data, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}
