package source

import (
	"fmt"
	"strings"
)

// Problem is what is wrong with a file, or with an object in it.
type Problem struct {
	// Path is the file, or the directory.
	Path string
	// Line counts from 1; 0 means the whole file.
	Line int
	// Field is the path of a field, empty if it is not about one.
	Field string
	// Reason says what is wrong and what is done about it.
	Reason string
}

// String returns "path:line: field: reason".
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.Path)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	if p.Field != "" {
		b.WriteString(": " + p.Field)
	}
	b.WriteString(": " + p.Reason)
	return b.String()
}

// DecodeError says where a manifest cannot be read.
type DecodeError struct {
	Line   int // counts from 1; 0 means unknown
	Field  string
	Reason string
}

// Error returns "line N: field: reason".
func (e *DecodeError) Error() string {
	var b strings.Builder
	if e.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", e.Line)
	}
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	b.WriteString(e.Reason)
	return b.String()
}
