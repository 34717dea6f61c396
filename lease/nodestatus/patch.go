package nodestatus

import (
	"encoding/json"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
)

// Patch returns the strategic merge patch of the subresource status that makes one Node
// another: its labels and annotations, and its status. It is of the old Node's UID, so
// that the server refuses it for another Node of the name.
//
// Conditions merge by their type, so that those of others stay whatever they became.
// Addresses are replaced: their merge key, the type, is wrong for a node with two
// internal ones.
func Patch(old, fresh *corev1.Node) ([]byte, error) {
	before, err := object(old)
	if err != nil {
		return nil, err
	}
	after, err := object(fresh)
	if err != nil {
		return nil, err
	}
	metadata := map[string]any{}
	if old.UID != "" {
		metadata["uid"] = old.UID
	}
	for _, field := range []string{"labels", "annotations"} {
		if d := difference(child(before, "metadata", field), child(after, "metadata", field)); len(d) > 0 {
			metadata[field] = d
		}
	}
	patch := map[string]any{"metadata": metadata}
	if d := difference(child(before, "status"), child(after, "status")); len(d) > 0 {
		if addresses, ok := d["addresses"].([]any); ok {
			d["addresses"] = append(addresses, map[string]any{"$patch": "replace"})
		}
		if conditions, ok := d["conditions"].([]any); ok {
			d["conditions"] = touched(child(before, "status"), conditions)
		}
		patch["status"] = d
	}
	return json.Marshal(patch)
}

// object returns a Node as JSON sees it.
func object(n *corev1.Node) (map[string]any, error) {
	data, err := json.Marshal(n)
	if err != nil {
		return nil, fmt.Errorf("encode node %s: %w", n.Name, err)
	}
	var o map[string]any
	if err := json.Unmarshal(data, &o); err != nil {
		return nil, fmt.Errorf("decode node %s: %w", n.Name, err)
	}
	return o, nil
}

// child returns an object inside another one, nil if it is not there.
func child(o map[string]any, path ...string) map[string]any {
	for _, field := range path {
		o, _ = o[field].(map[string]any)
	}
	return o
}

// difference returns what makes one object another: fields that are gone are null,
// objects are compared field by field, and all else is taken as a whole.
func difference(old, fresh map[string]any) map[string]any {
	d := map[string]any{}
	for field := range old {
		if _, ok := fresh[field]; !ok {
			d[field] = nil
		}
	}
	for field, value := range fresh {
		before, had := old[field]
		if had && reflect.DeepEqual(before, value) {
			continue
		}
		a, isObject := before.(map[string]any)
		b, becomesObject := value.(map[string]any)
		if !isObject || !becomesObject {
			d[field] = value
			continue
		}
		d[field] = difference(a, b)
	}
	return d
}

// touched returns the conditions that differ from those of a status: the others belong
// to somebody else, who may have changed them meanwhile.
func touched(status map[string]any, conditions []any) []any {
	old, _ := status["conditions"].([]any)
	var changed []any
	for _, c := range conditions {
		if !contains(old, c) {
			changed = append(changed, c)
		}
	}
	return changed
}

func contains(list []any, value any) bool {
	for _, v := range list {
		if reflect.DeepEqual(v, value) {
			return true
		}
	}
	return false
}
