package strictyaml

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v2"
)

// parseYAML returns the tree of one document that is valid and not null. Lines
// count from first.
func parseYAML(text []byte, first int) *node {
	var root *node
	if err := yaml.Unmarshal(text, &root); err != nil || root == nil {
		return &node{line: first, unread: true}
	}
	root.shift(first - 1)
	root.merged = bytes.Contains(text, []byte("<<"))
	return root
}

// shift moves the tree down by lines. A node that an alias repeats is a value of
// its own, so that none moves twice.
func (n *node) shift(lines int) {
	if n == nil || lines == 0 {
		return
	}
	n.line += lines
	for i := range n.fields {
		n.fields[i].line += lines
		n.fields[i].value.shift(lines)
	}
	for _, item := range n.items {
		item.shift(lines)
	}
}

// UnmarshalYAML fills the node from the parser. The parser tells lines in its
// errors only, so that the node first asks for something it cannot get.
func (n *node) UnmarshalYAML(unmarshal func(any) error) error {
	n.line, n.kind = placeOf(unmarshal)
	if n.kind == scalar {
		if err := unmarshal(&n.value); err != nil {
			return err
		}
		switch n.value.(type) { // a tag hid what it is
		case map[any]any:
			n.kind, n.value = mapping, nil
		case []any:
			n.kind, n.value = sequence, nil
		}
	}
	switch n.kind {
	case mapping:
		var fields map[*key]*node
		err := unmarshal(&fields)
		n.setFields(fields)
		return err
	case sequence:
		return unmarshal(&n.items)
	}
	return nil
}

func (n *node) setFields(fields map[*key]*node) {
	for k, v := range fields {
		f := field{value: v}
		if k != nil {
			f.name, f.line = k.name, k.line
		}
		if f.line == 0 {
			f.line = n.line
		}
		n.fields = append(n.fields, f)
	}
	slices.SortFunc(n.fields, func(a, b field) int {
		return cmp.Or(cmp.Compare(a.line, b.line), strings.Compare(a.name, b.name))
	})
	n.indexed()
}

// key is a key of a mapping. A map of pointers to keys keeps keys that the file
// repeats.
type key struct {
	name string
	line int
}

// UnmarshalYAML takes any scalar for a name, as the API machinery does.
func (k *key) UnmarshalYAML(unmarshal func(any) error) error {
	k.line, _ = placeOf(unmarshal)
	var v any
	if err := unmarshal(&v); err != nil {
		return err
	}
	switch v := v.(type) {
	case string:
		k.name = v
	case bool:
		k.name = strconv.FormatBool(v)
	case int:
		k.name = strconv.Itoa(v)
	case int64:
		k.name = strconv.FormatInt(v, 10)
	case uint64:
		k.name = strconv.FormatUint(v, 10)
	case float64:
		k.name = strconv.FormatFloat(v, 'g', -1, 64)
	}
	return nil
}

// placeOf asks the parser for a value that no node can give, and reads the answer
// in its complaint, "line 3: cannot unmarshal !!map into chan struct {}": the line
// and, but for a node with a tag of its own, the kind.
func placeOf(unmarshal func(any) error) (line int, k kind) {
	var impossible chan struct{}
	mismatch, ok := errors.AsType[*yaml.TypeError](unmarshal(&impossible))
	if !ok || len(mismatch.Errors) == 0 {
		return 0, scalar
	}
	line, reason, _ := cutLine(mismatch.Errors[0])
	switch {
	case strings.HasPrefix(reason, "cannot unmarshal !!map into"):
		k = mapping
	case strings.HasPrefix(reason, "cannot unmarshal !!seq into"):
		k = sequence
	}
	return line, k
}

// parseJSON returns the tree of one valid JSON document.
func parseJSON(text []byte, first int) *node {
	p := &jsonParser{text: text, line: first, dec: json.NewDecoder(bytes.NewReader(text))}
	p.dec.UseNumber()
	return p.value(p.token())
}

// jsonParser turns tokens into nodes and counts lines on the way.
type jsonParser struct {
	text []byte
	dec  *json.Decoder
	done int // bytes of text whose newlines are counted
	line int
}

// token returns the next token, nil at the end; line is then the line on which
// it ends.
func (p *jsonParser) token() json.Token {
	t, err := p.dec.Token()
	if err != nil {
		return nil
	}
	end := int(p.dec.InputOffset())
	p.line += bytes.Count(p.text[p.done:end], []byte("\n"))
	p.done = end
	return t
}

func (p *jsonParser) value(t json.Token) *node {
	n := &node{line: p.line}
	switch t := t.(type) {
	case nil:
		return nil
	case json.Delim:
		if t == '{' {
			n.kind = mapping
			p.object(n)
		} else {
			n.kind = sequence
			p.array(n)
		}
	case json.Number:
		n.value = number(t)
	default:
		n.value = t
	}
	return n
}

func (p *jsonParser) object(n *node) {
	for p.dec.More() {
		name, _ := p.token().(string)
		f := field{name: name, line: p.line}
		f.value = p.value(p.token())
		n.fields = append(n.fields, f)
	}
	n.indexed()
	p.token() // the closing brace
}

func (p *jsonParser) array(n *node) {
	for p.dec.More() {
		n.items = append(n.items, p.value(p.token()))
	}
	p.token() // the closing bracket
}

func number(n json.Number) any {
	if i, err := n.Int64(); err == nil {
		return i
	}
	f, err := n.Float64()
	if err != nil {
		return n.String()
	}
	return f
}
