// Package readmetest keeps the code that a README shows equal to code that is compiled
// and run.
package readmetest

import (
	"os"
	"strings"
	"testing"
)

// ShowsExample fails the test unless each block of Go code in README.md stands in
// example_test.go, both in the folder of the test; the depth of indents may differ. A
// README without Go code fails, too.
func ShowsExample(tb testing.TB) {
	tb.Helper()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		tb.Fatal(err)
	}
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		tb.Fatal(err)
	}
	blocks := strings.Split(string(readme), "```go\n")[1:]
	if len(blocks) == 0 {
		tb.Error("README.md has no Go code")
	}
	for _, rest := range blocks {
		code, _, closed := strings.Cut(rest, "```")
		if !closed {
			tb.Error("README.md: a block of code has no end")
		}
		if !strings.Contains(unindent(string(example)), unindent(code)) {
			tb.Errorf("README.md shows code that is not in example_test.go:\n%s", code)
		}
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
