// Package strictyaml reads configuration and manifests as their owner wrote
// them: it decodes YAML and JSON into the types of the Kubernetes API as the API
// server does, and tells which line holds a field, which fields the type does
// not know, and which are set twice.
package strictyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// maxDocuments bounds how many documents one file may hold, so that a file of
// separators costs no more than its size.
const maxDocuments = 1000

// maxMarks bounds the lines, commas and opening brackets of a document, and with
// them the values in it: reading the worst one takes seconds, not minutes.
const maxMarks = 200_000

// maxExpanded bounds what aliases make of a document, in bytes.
const maxExpanded = 10 << 20

// SyntaxError says where a file stops being YAML or JSON.
type SyntaxError struct {
	// Line counts from 1; 0 means that the parser did not say.
	Line int
	// Message is the parser's reason without the line.
	Message string
}

// Error returns "line N: reason".
func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return e.Message
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Message)
}

// Document is one object of a file. Its methods read it only, so that any number
// of goroutines may use one.
type Document struct {
	// Line is the line of the file at which the document starts, counted from 1.
	Line int
	json []byte
	// tree parses the text again for its lines, when they are asked for.
	tree func() *node
}

// Parse splits data at the document markers of YAML and parses each document
// that holds something; a file of blanks and comments has none. The error is a
// *SyntaxError.
func Parse(data []byte) ([]Document, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if len(data) == 0 {
		return nil, nil
	}
	var docs []Document
	for i, c := range split(data) {
		if i == maxDocuments {
			return nil, &SyntaxError{Line: c.line, Message: fmt.Sprintf("more than %d documents in one file", maxDocuments)}
		}
		doc, err := parseChunk(c)
		if err != nil {
			return nil, err
		}
		if doc.json != nil {
			docs = append(docs, doc)
		}
	}
	return docs, nil
}

// marks counts what separates the values of YAML and JSON.
func marks(data []byte) int {
	n := 0
	for _, b := range data {
		switch b {
		case '\n', ',', '[', '{':
			n++
		}
	}
	return n
}

// chunk is the text of one document and the line at which it starts.
type chunk struct {
	line int
	text []byte
}

// split cuts data at the lines that YAML reserves for markers: "---" opens a
// document, "..." closes one. What follows "---" on its line stays.
func split(data []byte) []chunk {
	var chunks []chunk
	current := chunk{line: 1}
	line := 0
	for text := range bytes.Lines(data) {
		line++
		switch {
		case isMarker(text, "---"):
			chunks = append(chunks, current)
			current = chunk{line: line, text: append([]byte("   "), text[3:]...)}
		case isMarker(text, "..."):
			chunks = append(chunks, current)
			current = chunk{line: line, text: []byte("\n")}
		case len(current.text) == 0 && text[0] == '%':
			current.text = append(current.text, '\n') // a directive; this parser needs none
		default:
			current.text = append(current.text, text...)
		}
	}
	return append(chunks, current)
}

func isMarker(line []byte, marker string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(marker))
	return ok && (len(rest) == 0 || strings.ContainsRune(" \t\r\n", rune(rest[0])))
}

func parseChunk(c chunk) (Document, error) {
	text := bytes.TrimSpace(c.text)
	if len(text) == 0 {
		return Document{}, nil
	}
	if marks(text) > maxMarks {
		return Document{}, &SyntaxError{Line: c.firstLine(), Message: fmt.Sprintf("more than %d lines and items in one document", maxMarks)}
	}
	if text[0] == '{' && json.Valid(text) {
		tree := sync.OnceValue(func() *node { return parseJSON(c.text, c.line) })
		return Document{Line: c.firstLine(), json: text, tree: tree}, nil
	}
	if expands(c.text) {
		return Document{}, &SyntaxError{Line: c.firstLine(), Message: fmt.Sprintf("aliases make more than %d bytes of it; write out what they stand for", maxExpanded)}
	}
	converted, err := yaml.YAMLToJSON(c.text)
	switch {
	case err != nil && text[0] == '{':
		return Document{}, jsonSyntaxError(c)
	case err != nil:
		return Document{}, yamlSyntaxError(err, c.line)
	case string(converted) == "null":
		return Document{}, nil
	}
	tree := sync.OnceValue(func() *node { return parseYAML(c.text, c.line) })
	return Document{Line: c.firstLine(), json: converted, tree: tree}, nil
}

// firstLine returns the first line that is not blank or a comment.
func (c chunk) firstLine() int {
	line := c.line
	for text := range bytes.Lines(c.text) {
		if text = bytes.TrimSpace(text); len(text) > 0 && text[0] != '#' {
			break
		}
		line++
	}
	return line
}

func jsonSyntaxError(c chunk) *SyntaxError {
	var v any
	err := json.Unmarshal(c.text, &v)
	e := &SyntaxError{Message: "not JSON"}
	if err != nil {
		e.Message = err.Error()
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		e.Line = c.line + bytes.Count(c.text[:min(int(syntax.Offset), len(c.text))], []byte("\n"))
	}
	return e
}

// yamlSyntaxError takes the line out of the parser's text, which reads "yaml:
// line 3: reason" or "yaml: reason", and counts it from the start of the file.
func yamlSyntaxError(err error, first int) *SyntaxError {
	message := err.Error()
	if _, rest, ok := strings.Cut(message, "yaml: "); ok {
		message = rest
	}
	line, reason, ok := cutLine(message)
	if !ok {
		return &SyntaxError{Line: first, Message: message}
	}
	return &SyntaxError{Line: first + line - 1, Message: reason}
}

// cutLine splits "line 3: reason".
func cutLine(text string) (line int, reason string, ok bool) {
	rest, ok := strings.CutPrefix(text, "line ")
	if !ok {
		return 0, text, false
	}
	number, reason, ok := strings.Cut(rest, ": ")
	if !ok {
		return 0, text, false
	}
	line, err := strconv.Atoi(number)
	if err != nil || line < 1 {
		return 0, text, false
	}
	return line, reason, true
}

// JSON returns the document as JSON. The caller does not change it.
func (d Document) JSON() []byte { return d.json }

// Decode stores the document in the value that into points to, as the API
// machinery does: names match by case, unknown names are skipped, the last of
// two equal names wins. Check says what Decode passes over.
func (d Document) Decode(into any) error {
	return kjson.UnmarshalCaseSensitivePreserveInts(d.json, into)
}

// LineOf returns the line of the field at path, which is written like
// "spec.containers[0].image" or "metadata.labels[app]". A field that is not in
// the document has the line of the nearest one around it that is.
func (d Document) LineOf(path string) int { return d.tree().lineOf(path) }

// Has reports whether the document states the field at path, be it null.
func (d Document) Has(path string) bool { return d.tree().has(path) }

// Items returns the items of the list in a field of the document as documents of their
// own, whose lines are those of the file. A field that is not set, or null, is an empty
// list; one that is no list is an error.
func (d Document) Items(field string) ([]Document, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(d.json, &fields); err != nil {
		return nil, fmt.Errorf("%s: not in an object: %w", field, err)
	}
	raw, ok := fields[field]
	if !ok {
		return nil, nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, fmt.Errorf("%s: not a list", field)
	}
	docs := make([]Document, len(items))
	for i, item := range items {
		path := fmt.Sprintf("%s[%d]", field, i)
		docs[i] = Document{Line: d.LineOf(path), json: item, tree: func() *node { return d.tree().sub(path) }}
	}
	return docs, nil
}
