package events_test

import (
	"os"
	"strings"
	"testing"
)

// TestReadmeShowsTheExample: the code of the README is part of the Example, which is
// compiled and run.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, ok := strings.Cut(string(readme), "```go\n")
	if !ok {
		t.Fatal("README.md has no Go code")
	}
	code, _, _ = strings.Cut(code, "```")
	if !strings.Contains(unindent(string(example)), unindent(code)) {
		t.Errorf("README.md shows code that is not in example_test.go:\n%s", code)
	}
}

// unindent removes the blanks at the beginning of lines.
func unindent(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(strings.TrimLeft(line, " \t"))
	}
	return b.String()
}
