package leasetest

import (
	"errors"
	"slices"
)

var errUID = errors.New("the UID in the patch is that of another object")

// mergeKeys are the lists of a NodeStatus that a strategic merge patch merges by a key
// of their elements (patchMergeKey in the types of k8s.io/api/core/v1). All other
// lists are replaced.
var mergeKeys = map[string]string{"conditions": "type", "addresses": "type"} //nolint:gochecknoglobals // a table

// merge applies a strategic merge patch to an object: null deletes, objects merge,
// lists merge by their key or are replaced. Of the directives it knows
// {"$patch":"replace"} in lists.
func merge(object, patch map[string]any) map[string]any {
	if object == nil {
		object = map[string]any{}
	}
	for field, value := range patch {
		switch value := value.(type) {
		case nil:
			delete(object, field)
		case map[string]any:
			old, _ := object[field].(map[string]any)
			object[field] = merge(old, value)
		case []any:
			old, _ := object[field].([]any)
			object[field] = mergeList(old, value, mergeKeys[field])
		default:
			object[field] = value
		}
	}
	return object
}

// mergeList applies a list of a patch; an empty key means that it replaces the old one.
func mergeList(old, patch []any, key string) []any {
	elements := slices.DeleteFunc(slices.Clone(patch), isReplace)
	if key == "" || len(elements) < len(patch) {
		return elements
	}
	for _, e := range elements {
		change, _ := e.(map[string]any)
		i := slices.IndexFunc(old, func(o any) bool {
			m, _ := o.(map[string]any)
			return m[key] == change[key]
		})
		if i < 0 {
			old = append(old, e)
			continue
		}
		before, _ := old[i].(map[string]any)
		old[i] = merge(before, change)
	}
	return old
}

// isReplace reports whether an element says that the list replaces the old one.
func isReplace(e any) bool {
	m, _ := e.(map[string]any)
	return m["$patch"] == "replace"
}
