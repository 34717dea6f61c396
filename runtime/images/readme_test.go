package images_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The code of each README is part of an Example, which is compiled and run.
func TestReadmesShowExamples(t *testing.T) {
	for _, dir := range []string{".", "gc", "pullrecord", "reference", "registryauth"} {
		t.Run(dir, func(t *testing.T) {
			_, code, ok := strings.Cut(read(t, filepath.Join(dir, "README.md")), "```go\n")
			if !ok {
				t.Fatal("README.md has no Go code")
			}
			code, _, _ = strings.Cut(code, "```")
			if !strings.Contains(read(t, filepath.Join(dir, "example_test.go")), code) {
				t.Errorf("README.md shows code that is not in example_test.go:\n%s", code)
			}
		})
	}
}

// read returns a file without the blanks at the beginning of lines.
func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for line := range strings.Lines(string(data)) {
		b.WriteString(strings.TrimLeft(line, " \t"))
	}
	return b.String()
}
