package staticpods

import (
	"fmt"
	"strings"
	"testing"
)

// TestHostileManifests decodes manifests that are made to cost much: each is refused
// with a bounded list of problems.
func TestHostileManifests(t *testing.T) {
	const head = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\n"
	numbered := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	tests := []struct{ name, text string }{
		{name: "containers", text: head + "spec:\n  containers:\n" + strings.Repeat("  - name: a\n    image: b\n", 4000)},
		{name: "unknown fields", text: head + "spec:\n" + numbered(6000, "  containerz%d: 1\n")},
		{name: "bad labels", text: head + "  labels:\n" + numbered(6000, "    _l%d: x\n") + "spec: {}\n"},
		{name: "long texts by alias", text: head + "a: &a " + strings.Repeat("x", 500000) + "\nb: [" + strings.Repeat("*a,", 100000) + "]\n"},
		{name: "too many values", text: head + "a: [" + strings.Repeat("1,", 1<<18) + "]\n"},
		{name: "too many values in JSON", text: `{"a":[` + strings.Repeat("1,", 1<<18) + `1]}`},
		{name: "nesting", text: head + "spec: " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Decode([]byte(tt.text), "node")
			bad, ok := err.(*InvalidError) //nolint:errorlint // Decode returns it as it is
			if !ok {
				t.Fatalf("error is %v, want an *InvalidError", err)
			}
			if n := len(bad.Problems); n > 3*enough {
				t.Errorf("%d problems", n)
			}
		})
	}
}
