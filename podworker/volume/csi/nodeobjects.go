package csi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodeIDs is the annotation of a Node with what drivers call it, as a JSON object
// (https://kubernetes.io/docs/reference/labels-annotations-taints/#csi-volume-kubernetes-io-nodeid).
const nodeIDs = "csi.volume.kubernetes.io/nodeid"

// newCSINode is the CSINode of a node.
func newCSINode(node *corev1.Node, drivers map[string]*nodeInfo) *storagev1.CSINode {
	return &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{
			Name:            node.Name,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
		},
		Spec: storagev1.CSINodeSpec{Drivers: mergeDrivers(nil, drivers)},
	}
}

// mergeDrivers returns the drivers of a CSINode with what is known about them now. Those
// about which nothing is known stay.
func mergeDrivers(now []storagev1.CSINodeDriver, drivers map[string]*nodeInfo) []storagev1.CSINodeDriver {
	out := []storagev1.CSINodeDriver{}
	for _, d := range now {
		if _, known := drivers[d.Name]; !known {
			out = append(out, d)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(drivers)) {
		info := drivers[name]
		if info == nil {
			continue
		}
		d := storagev1.CSINodeDriver{Name: name, NodeID: info.id, TopologyKeys: slices.Sorted(maps.Keys(info.topology))}
		if info.max > 0 {
			count := int32(min(info.max, math.MaxInt32))
			d.Allocatable = &storagev1.VolumeNodeResources{Count: &count}
		}
		out = append(out, d)
	}
	return out
}

// equalDrivers compares drivers whatever their order.
func equalDrivers(a, b []storagev1.CSINodeDriver) bool {
	if len(a) != len(b) {
		return false
	}
	byName := map[string]storagev1.CSINodeDriver{}
	for _, d := range a {
		byName[d.Name] = d
	}
	return !slices.ContainsFunc(b, func(d storagev1.CSINodeDriver) bool {
		other, ok := byName[d.Name]
		return !ok || other.NodeID != d.NodeID || count(other) != count(d) ||
			!slices.Equal(slices.Sorted(slices.Values(other.TopologyKeys)), slices.Sorted(slices.Values(d.TopologyKeys)))
	})
}

func count(d storagev1.CSINodeDriver) int32 {
	if d.Allocatable == nil || d.Allocatable.Count == nil {
		return 0
	}
	return *d.Allocatable.Count
}

// nodePatch returns the merge patch that makes a Node say what drivers call it and where
// it is for them, nil for none. A label that says something else already is an error and
// stays, as pods and volumes were placed by it.
func nodePatch(node *corev1.Node, drivers map[string]*nodeInfo) (patch []byte, collisions error) {
	ids := map[string]string{}
	if raw := node.Annotations[nodeIDs]; raw != "" {
		if err := json.Unmarshal([]byte(raw), &ids); err != nil {
			ids = map[string]string{} // nobody can read it, it is written anew
		}
	}
	before := maps.Clone(ids)
	labels := map[string]string{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(drivers)) {
		info := drivers[name]
		if info == nil {
			delete(ids, name)
			continue
		}
		ids[name] = info.id
		for _, key := range slices.Sorted(maps.Keys(info.topology)) {
			value := info.topology[key]
			switch now, ok := node.Labels[key]; {
			case !ok:
				labels[key] = value
			case now != value:
				errs = append(errs, fmt.Errorf("detected topology value collision: driver %s reported %q:%q but existing label is %q:%q", name, key, value, key, now))
			}
		}
	}
	metadata := map[string]any{}
	if !maps.Equal(before, ids) {
		metadata["annotations"] = map[string]any{nodeIDs: encodeIDs(ids)}
	}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	if len(metadata) == 0 {
		return nil, errors.Join(errs...)
	}
	// The resource version makes the server refuse what was decided by an old Node.
	metadata["resourceVersion"] = node.ResourceVersion
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	return patch, errors.Join(append(errs, err)...)
}

// encodeIDs is the value of the annotation, nil to remove it.
func encodeIDs(ids map[string]string) any {
	if len(ids) == 0 {
		return nil
	}
	raw, err := json.Marshal(ids)
	if err != nil {
		return nil // a map of strings always encodes
	}
	return string(raw)
}
