package podspec

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestEveryFieldHasARule walks all types a PodSpec is made of, through fields that
// may be set, and fails for one without a rule; and for rules without a field.
func TestEveryFieldHasARule(t *testing.T) {
	seen := map[string]bool{}
	walk(t, reflect.TypeFor[corev1.PodSpec](), seen)
	for key := range fields {
		if !seen[key] {
			t.Errorf("the rule for %s belongs to no field that can be reached", key)
		}
	}
}

func walk(t *testing.T, typ reflect.Type, seen map[string]bool) {
	t.Helper()
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		walk(t, typ.Elem(), seen)
		return
	case reflect.Struct:
	default:
		return
	}
	if isLeaf(typ) {
		return
	}
	for f := range typ.Fields() {
		key := typ.Name() + "." + f.Name
		if seen[key] {
			continue
		}
		seen[key] = true
		r, ok := fields[key]
		if !ok {
			t.Errorf("%s has no rule: honour it, warn of it or refuse it", key)
			continue
		}
		if r.support == Honoured {
			walk(t, f.Type, seen)
		} else if r.why == "" {
			t.Errorf("the rule for %s does not say why", key)
		}
	}
}
