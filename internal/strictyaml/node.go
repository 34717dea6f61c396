package strictyaml

import (
	"slices"
	"strconv"
	"strings"
)

// kind tells the three shapes of a node.
type kind uint8

const (
	scalar kind = iota
	mapping
	sequence
)

// String returns the word that a person uses for the kind.
func (k kind) String() string {
	switch k {
	case mapping:
		return "a mapping"
	case sequence:
		return "a list"
	default:
		return "a single value"
	}
}

// node is one value of a document with its line; a nil node is null.
type node struct {
	kind   kind
	line   int
	fields []field        // of a mapping, in the order of their lines
	index  map[string]int // the last of fields with a name; nil for short mappings
	items  []*node        // of a sequence
	value  any            // of a scalar: bool, int, int64, uint64, float64 or string
	merged bool           // set on the root when a merge key may have joined mappings
	unread bool           // set on the root when the document could not be read as a tree
}

// field is one entry of a mapping.
type field struct {
	name  string
	line  int
	value *node
}

// short is the length up to which a mapping is searched without an index.
const short = 16

// indexed makes the index of a mapping whose fields are complete.
func (n *node) indexed() {
	if len(n.fields) <= short {
		return
	}
	n.index = make(map[string]int, len(n.fields))
	for i := range n.fields {
		n.index[n.fields[i].name] = i
	}
}

// lookup returns the last field of that name, which is the one that wins.
func (n *node) lookup(name string) (field, bool) {
	if n == nil {
		return field{}, false
	}
	if n.index != nil {
		i, ok := n.index[name]
		if !ok {
			return field{}, false
		}
		return n.fields[i], true
	}
	for _, f := range slices.Backward(n.fields) {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
}

func (n *node) lineOf(path string) int {
	line, _ := n.find(path)
	return line
}

func (n *node) has(path string) bool {
	_, ok := n.find(path)
	return ok
}

// sub returns the node at path as the root of a document.
func (n *node) sub(path string) *node {
	root := node{kind: mapping, line: n.lineOf(path)}
	at := n
	for ok := true; path != "" && ok; {
		var step string
		step, path = cutStep(path)
		at, _, ok = at.step(step)
	}
	if at != nil {
		root = *at
	}
	root.merged, root.unread = n.merged, n.unread
	return &root
}

// find walks path as far as the document goes; ok says that it went all the way.
func (n *node) find(path string) (line int, ok bool) {
	if n == nil {
		return 0, path == ""
	}
	line = n.line
	for path != "" {
		var step string
		step, path = cutStep(path)
		next, at, found := n.step(step)
		if !found {
			return line, false
		}
		n, line = next, at
	}
	return line, true
}

// step goes one step down: into the field or the item of that name.
func (n *node) step(name string) (next *node, line int, ok bool) {
	if n == nil {
		return nil, 0, false
	}
	if f, ok := n.lookup(name); ok {
		return f.value, f.line, true
	}
	i, err := strconv.Atoi(name)
	if n.kind != sequence || err != nil || i < 0 || i >= len(n.items) {
		return nil, 0, false
	}
	if n.items[i] == nil {
		return nil, n.line, true
	}
	return n.items[i], n.items[i].line, true
}

// cutStep takes the first step off a path: "a.b" is "a" and "b", "[k.1].b" is
// "k.1" and "b".
func cutStep(path string) (step, rest string) {
	if strings.HasPrefix(path, "[") {
		step, rest, _ = strings.Cut(path[1:], "]")
		return step, strings.TrimPrefix(rest, ".")
	}
	end := strings.IndexAny(path, ".[")
	if end < 0 {
		return path, ""
	}
	return path[:end], strings.TrimPrefix(path[end:], ".")
}
