package cluster

import (
	"context"
	"errors"
	"testing"

	"github.com/nodekit-go/nodekit/test/testnode"
)

func TestProgramWithoutALife(t *testing.T) {
	broken := errors.New("no such file")
	p := &Program{
		name:   "x",
		launch: func(context.Context) (*testnode.Process, error) { return nil, broken },
	}
	if err := p.Start(t.Context()); !errors.Is(err, broken) {
		t.Errorf("Start: %v, want %v", err, broken)
	}
	if p.Running() || p.PID() != 0 || p.Log() != "" {
		t.Errorf("it runs: %v, as %d, with log %q", p.Running(), p.PID(), p.Log())
	}
	if err := errors.Join(p.Stop(), p.Kill()); err != nil {
		t.Errorf("ending what does not run: %v", err)
	}
}
