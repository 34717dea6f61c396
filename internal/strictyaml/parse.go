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

// parseYAML returns the tree of one document; nil for one that is null. Lines
// count from first.
func parseYAML(text []byte, first int) (*node, error) {
	var root *node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, err
	}
	if root != nil {
		root.shift(first - 1)
		root.merged = bytes.Contains(text, []byte("<<"))
	}
	return root, nil
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
	n.line = lineFrom(unmarshal)

	var fields map[*key]*node
	err := unmarshal(&fields)
	if err == nil && fields != nil {
		n.kind = mapping
		n.setFields(fields)
		return nil
	}
	if fatal(err) {
		return err
	}
	err = unmarshal(&n.items)
	if err == nil {
		n.kind = sequence
		return nil
	}
	if fatal(err) {
		return err
	}
	n.items = nil
	return unmarshal(&n.value)
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
}

// key is a key of a mapping. A map of pointers to keys keeps keys that the file
// repeats.
type key struct {
	name string
	line int
}

// UnmarshalYAML takes any scalar for a name, as the API machinery does.
func (k *key) UnmarshalYAML(unmarshal func(any) error) error {
	k.line = lineFrom(unmarshal)
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

// lineFrom asks the parser for a value that no node can give, and reads the line
// in its complaint: "line 3: cannot unmarshal !!str `x` into chan struct {}". It
// returns 0 when there is none.
func lineFrom(unmarshal func(any) error) int {
	var impossible chan struct{}
	mismatch, ok := errors.AsType[*yaml.TypeError](unmarshal(&impossible))
	if !ok || len(mismatch.Errors) == 0 {
		return 0
	}
	line, _, _ := cutLine(mismatch.Errors[0])
	return line
}

// fatal tells an error of the whole document (excessive aliasing) from the
// answer that a node has another kind.
func fatal(err error) bool {
	if err == nil {
		return false
	}
	_, mismatch := errors.AsType[*yaml.TypeError](err)
	return !mismatch
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
