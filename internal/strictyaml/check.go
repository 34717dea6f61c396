package strictyaml

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Kind says what is wrong with a field.
type Kind uint8

// The kinds of Issue. Decode fails on WrongType and passes over the others.
const (
	Unknown   Kind = iota + 1 // the type has no such field
	Duplicate                 // an earlier line sets the same field
	WrongType                 // the value does not fit the field
)

// Issue is one thing that is wrong with one field.
type Issue struct {
	Kind    Kind
	Line    int
	Field   string // like "spec.containers[0].image"; empty is the whole document
	Message string
}

// Check compares the document with the type that into points to, by the json
// tags of its fields, and returns the issues in the order of lines: all of them, or
// the first hundred that it finds.
func (d Document) Check(into any) []Issue {
	root := d.tree()
	c := checker{merged: root.merged, known: map[reflect.Type]map[string]reflect.Type{}}
	if root.unread {
		c.add(WrongType, d.Line, "", "has too many aliases to be checked; write out what they stand for")
		return c.issues
	}
	c.check(root, reflect.TypeOf(into).Elem(), "")
	slices.SortStableFunc(c.issues, func(a, b Issue) int { return a.Line - b.Line })
	return c.issues
}

type checker struct {
	merged bool
	known  map[reflect.Type]map[string]reflect.Type // what fieldsOf gave
	issues []Issue
}

// fields is fieldsOf with a memory.
func (c *checker) fields(t reflect.Type) map[string]reflect.Type {
	known, ok := c.known[t]
	if !ok {
		known = fieldsOf(t)
		c.known[t] = known
	}
	return known
}

// maxIssues is more than anyone reads.
const maxIssues = 100

func (c *checker) full() bool { return len(c.issues) >= maxIssues }

func (c *checker) add(k Kind, line int, path, format string, args ...any) {
	if c.full() {
		return
	}
	c.issues = append(c.issues, Issue{Kind: k, Line: line, Field: path, Message: fmt.Sprintf(format, args...)})
}

// check walks n and t side by side; null fits everything.
func (c *checker) check(n *node, t reflect.Type, path string) {
	if n == nil || c.full() {
		return
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
		c.leaf(n, t, path)
	case t.Kind() == reflect.Struct:
		c.structure(n, t, path)
	case t.Kind() == reflect.Map:
		if c.want(n, mapping, path) {
			c.duplicates(n, path)
			for _, f := range n.fields {
				c.check(f.value, t.Elem(), path+"["+f.name+"]")
			}
		}
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		if c.want(n, sequence, path) {
			for i, item := range n.items {
				c.check(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i))
			}
		}
	default:
		c.leaf(n, t, path)
	}
}

func (c *checker) structure(n *node, t reflect.Type, path string) {
	if !c.want(n, mapping, path) {
		return
	}
	c.duplicates(n, path)
	known := c.fields(t)
	for _, f := range n.fields {
		at := join(path, f.name)
		ft, ok := known[f.name]
		switch {
		case c.full():
			return
		case !ok:
			c.add(Unknown, f.line, at, "unknown field%s", hint(f.name, known))
			continue
		}
		c.check(f.value, ft, at)
	}
}

// duplicates reports names that a mapping repeats. A merge key may repeat one on
// purpose, so that a document with merge keys is not examined.
func (c *checker) duplicates(n *node, path string) {
	if c.merged {
		return
	}
	first := map[string]int{}
	for _, f := range n.fields {
		if line, again := first[f.name]; again {
			c.add(Duplicate, f.line, join(path, f.name), "set twice, first on line %d; the last one counts", line)
			continue
		}
		first[f.name] = f.line
	}
}

func (c *checker) want(n *node, k kind, path string) bool {
	if n.kind == k {
		return true
	}
	c.add(WrongType, n.line, path, "is %s, must be %s", n.kind, k)
	return false
}

// leaf tries the value on the type, as the decoder will.
func (c *checker) leaf(n *node, t reflect.Type, path string) {
	text, err := json.Marshal(n.plain())
	if err != nil {
		c.add(WrongType, n.line, path, "%v", err)
		return
	}
	if err := json.Unmarshal(text, reflect.New(t).Interface()); err != nil {
		c.add(WrongType, n.line, path, "%s", mismatch(text, t, err))
	}
}

// mismatch words a decoder's error for the owner of the file.
func mismatch(text []byte, t reflect.Type, err error) string {
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); !ok {
		return err.Error()
	}
	value := string(text)
	if len(value) > 40 {
		value = value[:37] + "..."
	}
	want := t.Name()
	switch t.Kind() {
	case reflect.String: // y, 1.0 and the like are no strings in YAML
		return fmt.Sprintf("is read as %s, must be a string; write it in quotes", value)
	case reflect.Bool:
		want = "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		want = fmt.Sprintf("a whole number of %d bits", t.Bits())
	}
	return fmt.Sprintf("is %s, must be %s", value, want)
}

// plain returns the node as the values that encoding/json writes.
func (n *node) plain() any {
	if n == nil {
		return nil
	}
	switch n.kind {
	case mapping:
		m := make(map[string]any, len(n.fields))
		for _, f := range n.fields {
			m[f.name] = f.value.plain()
		}
		return m
	case sequence:
		s := make([]any, len(n.items))
		for i, item := range n.items {
			s[i] = item.plain()
		}
		return s
	default:
		return n.value
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// fieldsOf returns the fields of a struct by their names in JSON, with those of
// embedded structs.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case name == "" && f.Anonymous:
			embedded := f.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			maps.Copy(fields, fieldsOf(embedded))
		case name == "":
			fields[f.Name] = f.Type
		default:
			fields[name] = f.Type
		}
	}
	return fields
}
