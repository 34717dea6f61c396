package ipvs

import (
	"errors"
	"testing"
)

// Answers may wait in a connection after an error: it is not used again.
func TestPlanHangsUpAfterAnError(t *testing.T) {
	k := newFakeKernel(t)
	b := k.backend(Config{})
	for _, tt := range []struct {
		name         string
		before       func()
		open, dialed int
	}{
		{"nothing in force", func() {}, 0, 1},
		{"something in force", func() { reset(t, b, web("10.244.1.21:8080")) }, 1, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.before()
			k.broken = errors.New("broken")
			if _, err := b.Plan(t.Context(), stateOf()); !errors.Is(err, k.broken) {
				t.Errorf("Plan = %v, want what went wrong", err)
			}
			k.broken = nil
			if k.open != tt.open || k.dialed != tt.dialed {
				t.Errorf("%d connections of %d are open, want %d of %d", k.open, k.dialed, tt.open, tt.dialed)
			}
		})
	}
	apply(t, b, web("10.244.1.22:8080"))
}
