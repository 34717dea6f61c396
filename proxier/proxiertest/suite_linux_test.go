package proxiertest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/nodekit-go/nodekit/proxier"
)

// strayed is a Backend that has something left of every Service that went.
type strayed struct {
	*Backend
	known, left int
}

func (b *strayed) Differences(_ context.Context, s *proxier.State) ([]string, error) {
	if len(s.Ports) < b.known {
		b.left++
	}
	b.known = len(s.Ports)
	return slices.Repeat([]string{"- left"}, b.left), nil
}

func TestDifferencesOfTheKernelFail(t *testing.T) {
	p := newTracked(&strayed{Backend: NewBackend(t)})
	one, two := service{number: 1, endpoints: on(Pod1)}, service{number: 2, endpoints: on(Far1)}
	for _, services := range [][]service{{one}, {one, two}} {
		if err := p.Set(t.Context(), objectsOf(services)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Set(t.Context(), objectsOf([]service{two})); err == nil || !strings.Contains(err.Error(), "- left") {
		t.Errorf("Set after a Service went = %v, want what was left", err)
	}
}
