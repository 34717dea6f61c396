package podspec_test

import (
	"strings"
	"testing"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

func TestExpand(t *testing.T) {
	vars := map[string]string{"A": "1", "B": "$(A)", "EMPTY": ""}
	look := func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	}
	tests := []struct{ name, in, want string }{
		{name: "no reference", in: "plain", want: "plain"},
		{name: "reference", in: "a$(A)b", want: "a1b"},
		{name: "two", in: "$(A)$(A)", want: "11"},
		{name: "values are not expanded again", in: "$(B)", want: "$(A)"},
		{name: "empty value", in: "x$(EMPTY)y", want: "xy"},
		{name: "unknown", in: "$(NONE)", want: "$(NONE)"},
		{name: "escaped", in: "$$(A)", want: "$(A)"},
		{name: "escaped twice", in: "$$$$(A)", want: "$$(A)"},
		{name: "escaped and expanded", in: "$$$(A)", want: "$1"},
		{name: "shell", in: "$A ${A} $", want: "$A ${A} $"},
		{name: "open", in: "$(A", want: "$(A"},
		{name: "open before closed", in: "$(A$(A)", want: "$(A$(A)"},
		{name: "nothing between", in: "$()", want: "$()"},
		{name: "at the end", in: "x$$", want: "x$"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := podspec.Expand(tt.in, look); got != tt.want {
				t.Errorf("Expand(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

// FuzzExpand checks what holds for every text: without a $ nothing changes, unknown
// references stay, and doubling every $ protects a text from expansion.
func FuzzExpand(f *testing.F) {
	for _, s := range []string{"", "$", "$$", "$(A)", "$$(A)", "$(A", "a$(B)c$", "$($(A))", "$(\x00)"} {
		f.Add(s)
	}
	known := func(string) (string, bool) { return "v", true }
	unknown := func(string) (string, bool) { return "", false }
	f.Fuzz(func(t *testing.T, s string) {
		if !strings.Contains(s, "$") && podspec.Expand(s, known) != s {
			t.Errorf("Expand(%q) changed a text without references", s)
		}
		if !strings.Contains(s, "$$") && podspec.Expand(s, unknown) != s {
			t.Errorf("Expand(%q) = %q without any variable", s, podspec.Expand(s, unknown))
		}
		if got := podspec.Expand(strings.ReplaceAll(s, "$", "$$"), known); got != s {
			t.Errorf("Expand of %q with every $ doubled = %q", s, got)
		}
	})
}
