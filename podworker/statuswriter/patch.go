package statuswriter

import (
	"encoding/json"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// mergeKey returns the field that tells the entries of a list of the status apart when
// the API server merges it (the patchMergeKey of k8s.io/api/core/v1); empty for lists
// that are replaced.
func mergeKey(field string) string {
	switch field {
	case "conditions":
		return "type"
	case "hostIPs", "podIPs":
		return "ip"
	}
	return ""
}

// patch returns the strategic merge patch that makes old into next, nil if they are the
// same. It names the UID: the API server refuses it for another pod of that name.
func patch(uid types.UID, old, next *corev1.PodStatus) ([]byte, error) {
	from, err := fields(old)
	if err != nil {
		return nil, err
	}
	to, err := fields(next)
	if err != nil {
		return nil, err
	}
	status := difference(from, to)
	for field := range to {
		if key := mergeKey(field); key != "" {
			replaceByKey(status, field, key, entries(from[field]), entries(to[field]))
		}
	}
	if len(status) == 0 {
		return nil, nil
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": string(uid)},
		"status":   status,
	})
}

// fields returns a status as JSON sees it: times are cut to seconds.
func fields(s *corev1.PodStatus) (map[string]any, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode status: %w", err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("decode status: %w", err)
	}
	return out, nil
}

// difference returns what of an object has changed; null stands for what is gone.
func difference(old, next map[string]any) map[string]any {
	out := map[string]any{}
	for name, to := range next {
		from, had := old[name]
		if had && reflect.DeepEqual(from, to) {
			continue
		}
		a, both := from.(map[string]any)
		b, ok := to.(map[string]any)
		if both && ok {
			out[name] = difference(a, b)
			continue
		}
		out[name] = to
	}
	for name := range old {
		if _, has := next[name]; !has {
			out[name] = nil
		}
	}
	return out
}

func entries(v any) []map[string]any {
	list, _ := v.([]any)
	out := make([]map[string]any, 0, len(list))
	for _, e := range list {
		if entry, ok := e.(map[string]any); ok {
			out = append(out, entry)
		}
	}
	return out
}

// replaceByKey rewrites the change of a merged list: entries that are new or changed,
// the order of all, and directives to remove what is gone.
func replaceByKey(status map[string]any, field, key string, old, next []map[string]any) {
	if _, changed := status[field]; !changed {
		return
	}
	had := byKey(old, key)
	has := byKey(next, key)
	list, order := []any{}, []any{}
	for _, e := range next {
		order = append(order, map[string]any{key: e[key]})
		before, known := had[e[key]]
		if !known {
			list = append(list, e)
			continue
		}
		if change := difference(before, e); len(change) > 0 {
			change[key] = e[key]
			list = append(list, change)
		}
	}
	for _, e := range old {
		if _, kept := has[e[key]]; !kept {
			list = append(list, map[string]any{"$patch": "delete", key: e[key]})
		}
	}
	delete(status, field)
	if len(list) > 0 {
		status[field] = list
	}
	status["$setElementOrder/"+field] = order
}

func byKey(list []map[string]any, key string) map[any]map[string]any {
	out := make(map[any]map[string]any, len(list))
	for _, e := range list {
		out[e[key]] = e
	}
	return out
}
