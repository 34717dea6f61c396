package pinning

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestCPUSet(t *testing.T) {
	for _, text := range []string{"", "0", "0-3", "0-3,8", "1,3,63-65,200"} {
		s, err := ParseCPUSet(text)
		if err != nil || s.String() != text {
			t.Errorf("%q is read as %q, %v", text, s, err)
		}
	}
	if _, err := ParseCPUSet("0-"); err == nil {
		t.Error("half a range is read")
	}
	if s := NewCPUSet(-1, 5, 5); s.Len() != 1 || s.Has(-1) || !s.Has(5) || s.Has(1000) {
		t.Errorf("set %s", s)
	}
	for range NewCPUSet(1, 2).All() {
		break // must not go on
	}
}

func TestCPUSetsAreSets(t *testing.T) {
	cpus := rapid.SliceOf(rapid.IntRange(0, 200))
	rapid.Check(t, func(t *rapid.T) {
		x, y := cpus.Draw(t, "x"), cpus.Draw(t, "y")
		a, b := NewCPUSet(x...), NewCPUSet(y...)
		for cpu := range 201 {
			inX, inY := slices.Contains(x, cpu), slices.Contains(y, cpu)
			if a.Has(cpu) != inX || a.Union(b).Has(cpu) != (inX || inY) || a.Intersect(b).Has(cpu) != (inX && inY) || a.Without(b).Has(cpu) != (inX && !inY) {
				t.Fatalf("CPU %d of %s and %s", cpu, a, b)
			}
		}
		if !a.Without(b).Union(a.Intersect(b)).Equal(a) || a.common(b) != a.Intersect(b).Len() || a.Without(a).Len() != 0 || !a.Without(a).IsEmpty() {
			t.Fatalf("%s and %s do not add up", a, b)
		}
		back, err := ParseCPUSet(a.String())
		if err != nil || !back.Equal(a) || a.first(3).Len() != min(3, a.Len()) {
			t.Fatalf("%s is read back as %s, %v", a, back, err)
		}
	})
}
