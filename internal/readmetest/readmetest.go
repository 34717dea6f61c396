// Package readmetest keeps the code that a README shows equal to code that is compiled
// and run.
package readmetest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ShowsExample fails the test unless each block of Go code in README.md stands in one of
// example*_test.go, all in the folder of the test; the depth of indents may differ. A
// README without Go code fails, too.
func ShowsExample(tb testing.TB) {
	tb.Helper()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		tb.Fatal(err)
	}
	examples := examples(tb)
	blocks := strings.Split(string(readme), "```go\n")[1:]
	if len(blocks) == 0 {
		tb.Error("README.md has no Go code")
	}
	for _, rest := range blocks {
		code, _, closed := strings.Cut(rest, "```")
		if !closed {
			tb.Error("README.md: a block of code has no end")
		}
		if !slices.ContainsFunc(examples, func(e string) bool { return strings.Contains(e, unindent(code)) }) {
			tb.Errorf("README.md shows code that is in no example*_test.go:\n%s", code)
		}
	}
}

// examples returns what the files with examples hold, without indents.
func examples(tb testing.TB) []string {
	tb.Helper()
	names, err := filepath.Glob("example*_test.go")
	if err != nil || len(names) == 0 {
		tb.Fatalf("files with examples: %q (%v), want one at least", names, err)
	}
	var out []string
	for _, name := range names {
		code, err := os.ReadFile(name)
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, unindent(string(code)))
	}
	return out
}

// unindent removes the blanks at the beginning of lines.
func unindent(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(strings.TrimLeft(line, " \t"))
	}
	return b.String()
}
