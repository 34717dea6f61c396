package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/internal/strictyaml"
)

// merge makes one configuration of several files, as a JSON merge patch does
// (RFC 7386), which is how the kubelet merges its drop-ins
// (https://kubernetes.io/docs/tasks/administer-cluster/kubelet-config-file).
func merge(files []file) (*kubeletv1beta1.KubeletConfiguration, error) {
	cfg := &kubeletv1beta1.KubeletConfiguration{}
	if len(files) == 1 && files[0].override == nil {
		err := files[0].doc.Decode(cfg)
		return cfg, err
	}
	merged := map[string]any{"apiVersion": APIVersion, "kind": Kind}
	for _, f := range files {
		fields, err := decode(f.doc.JSON())
		if err != nil {
			return nil, fmt.Errorf("kubelet configuration %s: %w", f.path, err)
		}
		if f.override != nil && !f.override.Merge {
			remove(merged, f.override.Field)
		}
		patch(merged, fields)
	}
	data, err := json.Marshal(merged)
	if err != nil {
		return nil, fmt.Errorf("merge kubelet configurations: %w", err)
	}
	docs, err := strictyaml.Parse(data)
	if err != nil || len(docs) != 1 {
		return nil, fmt.Errorf("merge kubelet configurations: %d documents: %w", len(docs), err)
	}
	err = docs[0].Decode(cfg)
	return cfg, err
}

// decode keeps numbers as they are written.
func decode(data []byte) (map[string]any, error) {
	var fields map[string]any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	err := d.Decode(&fields)
	return fields, err
}

// patch changes what changes names.
func patch(target, changes map[string]any) {
	for name, value := range changes {
		change, isMap := value.(map[string]any)
		switch {
		case value == nil:
			delete(target, name)
		case isMap:
			inner, ok := target[name].(map[string]any)
			if !ok {
				inner = map[string]any{}
			}
			patch(inner, change)
			target[name] = inner
		default:
			target[name] = value
		}
	}
}

// remove takes the value of a field out.
func remove(target map[string]any, field string) {
	parent, rest, nested := strings.Cut(field, ".")
	if !nested {
		delete(target, field)
		return
	}
	if inner, ok := target[parent].(map[string]any); ok {
		remove(inner, rest)
	}
}
