package staticpods

import (
	"fmt"
	"strings"
)

// Problem is one thing that is wrong with one field of a manifest.
type Problem struct {
	// Line counts from 1; 0 when the problem has no place in the file.
	Line int `json:"line,omitempty"`
	// Field is a path like "spec.containers[0].image"; empty for the whole file.
	Field string `json:"field,omitempty"`
	// Message says what is wrong and, where it is not plain, what to write.
	Message string `json:"message"`
}

// String returns "line 7: spec.containers[0].image: required", without the parts
// that are not known.
func (p Problem) String() string {
	var b strings.Builder
	if p.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", p.Line)
	}
	if p.Field != "" {
		b.WriteString(p.Field)
		b.WriteString(": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// InvalidError is the error of Decode: what keeps the manifest from running, in the
// order of lines. Of more than some hundred problems, some hundred are in it.
type InvalidError struct {
	Problems []Problem
}

// shown is how many problems an error spells out.
const shown = 10

// Error returns the first ten problems, separated by semicolons, and the number
// of the others.
func (e *InvalidError) Error() string {
	var texts []string
	for _, p := range e.Problems[:min(shown, len(e.Problems))] {
		texts = append(texts, p.String())
	}
	if more := len(e.Problems) - shown; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

// findings collects what a check of a typed object finds; it knows fields and
// no lines.
type findings []Problem

// enough is how many findings of one check are kept; nobody reads more.
const enough = 100

func (f *findings) add(field, format string, args ...any) {
	if len(*f) >= enough {
		return
	}
	*f = append(*f, Problem{Field: field, Message: fmt.Sprintf(format, args...)})
}

// addAll reports each message on the same field.
func (f *findings) addAll(field string, messages []string) {
	for _, m := range messages {
		f.add(field, "%s", m)
	}
}

// oneOf checks value against the words that the field may hold; empty passes,
// because every such field is optional or has been given its default.
func oneOf[T ~string](f *findings, field string, value T, allowed ...T) {
	if value == "" {
		return
	}
	words := make([]string, len(allowed))
	for i, a := range allowed {
		if a == value {
			return
		}
		words[i] = string(a)
	}
	f.add(field, "is %q, must be one of %s", value, strings.Join(words, ", "))
}
