package readmetest

import (
	"os"
	"testing"
)

// failed records whether a test would fail, and lets it go on.
type failed struct {
	testing.TB
	yes bool
}

func (f *failed) Helper()               {}
func (f *failed) Error(...any)          { f.yes = true }
func (f *failed) Errorf(string, ...any) { f.yes = true }

func TestShowsExample(t *testing.T) {
	const example = "package x\n\nfunc Example() {\n\trun(1)\n\trun(2)\n}\n"
	for _, tt := range []struct {
		name, readme string
		want         bool
	}{
		{name: "the same code, less indented", readme: "# x\n```go\nrun(1)\nrun(2)\n```\n"},
		{name: "other code", readme: "```go\nrun(3)\n```\n", want: true},
		{name: "second block is other code", readme: "```go\nrun(1)\n```\n```go\nrun(3)\n```\n", want: true},
		{name: "code of another example", readme: "```go\nrun(4)\n```\n"},
		{name: "no code", readme: "# x\n", want: true},
		{name: "no end", readme: "```go\nrun(1)\n", want: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for name, content := range map[string]string{"README.md": tt.readme, "example_test.go": example, "example_more_test.go": "\trun(4)\n"} {
				if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			f := &failed{TB: t}
			ShowsExample(f)
			if f.yes != tt.want {
				t.Errorf("it fails: %t, want %t", f.yes, tt.want)
			}
		})
	}
}
