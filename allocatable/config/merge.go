package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/internal/strictyaml"
)

// effective returns the configuration of several files with all defaults.
func effective(files []file) (*kubeletv1beta1.KubeletConfiguration, error) {
	settled, err := settle(files)
	if err != nil {
		return nil, err
	}
	cfg, err := merge(settled)
	if err != nil {
		return nil, err
	}
	SetDefaults(cfg)
	return cfg, nil
}

// settle adds to the first file the defaults that follow from what it sets, before
// drop-ins and flags change that: the kubelet gives the file of --config its defaults as
// soon as it is read (loadConfigFile in cmd/kubelet/app/server.go of Kubernetes), and has
// default thresholds only where there is such a file.
func settle(files []file) ([]file, error) {
	hasBase := len(files) > 0 && files[0].override == nil && !files[0].dropIn
	if hasBase && len(files) == 1 {
		return files, nil
	}
	base, first := &kubeletv1beta1.KubeletConfiguration{}, 0
	if hasBase {
		first = 1
		if err := files[0].doc.Decode(base); err != nil {
			return nil, err
		}
	}
	SetDefaults(base)
	defaults := []Override{{Field: "nodeStatusReportFrequency", Value: base.NodeStatusReportFrequency, Source: "default"}}
	if hasBase {
		defaults = append(defaults, Override{Field: "evictionHard", Value: base.EvictionHard, Source: "default"})
	}
	settled := slices.Clone(files[:first])
	for _, o := range defaults {
		f, err := o.file()
		if err != nil {
			return nil, err
		}
		settled = append(settled, f)
	}
	return append(settled, files[first:]...), nil
}

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
