package nodekit_test

import (
	"os"
	"strings"
	"testing"
)

// TestReadmeShowsTheExample keeps the README's Go code equal to code that a test
// runs.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	for _, rest := range strings.Split(string(readme), "```go\n")[1:] {
		code, _, closed := strings.Cut(rest, "```")
		if !closed {
			t.Fatal("a code block has no end")
		}
		blocks++
		if !strings.Contains(string(example), code) {
			t.Errorf("not in example_test.go:\n%s", code)
		}
	}
	if blocks == 0 {
		t.Error("README.md has no Go code")
	}
}
