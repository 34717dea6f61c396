package probes

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestExpand(t *testing.T) {
	vars := literals([]corev1.EnvVar{
		{Name: "A", Value: "first"},
		{Name: "A", Value: "alpha"},
		{Name: "NESTED", Value: "$(A)"},
		{Name: "EMPTY"},
		{Name: "FROM", ValueFrom: &corev1.EnvVarSource{}},
		{Name: "LATER", Value: "x"},
		{Name: "LATER", ValueFrom: &corev1.EnvVarSource{}},
	})
	tests := []struct{ in, want string }{
		{"plain", "plain"},
		{"$(A)", "alpha"},
		{"x$(A)y$(A)", "xalphayalpha"},
		{"$(NESTED)", "$(A)"},
		{"[$(EMPTY)]", "[]"},
		{"$(FROM) $(LATER) $(NOBODY)", "$(FROM) $(LATER) $(NOBODY)"},
		{"$$(A)", "$(A)"},
		{"$$$(A)", "$alpha"},
		{"$$$$", "$$"},
		{"$A ${A} $", "$A ${A} $"},
		{"$(A", "$(A"},
		{"$(", "$("},
		{"$()", "$()"},
		{"", ""},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, expand(tt.in, vars)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzExpand(f *testing.F) {
	for _, s := range []string{"", "$", "$$", "$(A)", "$(A", "$((A))", "a$$(A)$(B)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := expand(s, map[string]string{"A": "value"})
		if !strings.Contains(s, "$") && got != s {
			t.Errorf("expand(%q) = %q changes what has no reference", s, got)
		}
		// With every $ doubled nothing is a reference, and the original comes back.
		if got := expand(strings.ReplaceAll(s, "$", "$$"), map[string]string{"A": "value"}); got != s {
			t.Errorf("expand(escaped %q) = %q", s, got)
		}
	})
}
