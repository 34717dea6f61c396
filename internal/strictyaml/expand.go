package strictyaml

import (
	"bytes"

	"go.yaml.in/yaml/v2"
)

// expands reports whether the aliases of a YAML text repeat so much that the
// document is larger than maxExpanded. The parser bounds how many values they
// make, but not how long these are: it shares the texts, which JSON then repeats.
func expands(text []byte) bool {
	if bytes.IndexByte(text, '&') < 0 || bytes.IndexByte(text, '*') < 0 {
		return false
	}
	var v any
	if err := yaml.Unmarshal(text, &v); err != nil {
		return false // the caller's own attempt tells the error
	}
	return left(v, maxExpanded) < 0
}

// left returns how much of a number of bytes v leaves, counting texts and one byte
// for each value; below zero it stops counting.
func left(v any, budget int) int {
	budget--
	switch v := v.(type) {
	case string:
		return budget - len(v)
	case []any:
		for _, item := range v {
			if budget < 0 {
				break
			}
			budget = left(item, budget)
		}
	case map[any]any:
		for key, value := range v {
			if budget < 0 {
				break
			}
			budget = left(value, left(key, budget))
		}
	}
	return budget
}
