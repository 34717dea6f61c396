package runtimetest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

func TestConformance(t *testing.T) {
	for _, kind := range []runtimetest.Kind{runtimetest.Containerd, runtimetest.Containerd16, runtimetest.Containerd24, runtimetest.CRIO} {
		t.Run(kind.String(), func(t *testing.T) { checkKind(t, kind) })
	}
}

func checkKind(t *testing.T, kind runtimetest.Kind) {
	t.Helper()
	const image = "img.example/web:1"
	s := runtimetest.StartUnix(t, runtimetest.Config{
		Kind:         kind,
		Images:       []runtimetest.Image{{Name: image}},
		Exec:         scriptedExec,
		StreamingURL: "http://127.0.0.1:1",
	})
	runtimetest.Conformance(t, runtimetest.Target{
		Image: image,
		Dial: func(ctx context.Context, cfg runtime.Config) (*runtime.Client, error) {
			return runtime.Dial(ctx, s.Endpoint(), cfg)
		},
		Args: func(container string, life runtimetest.Life) []string {
			s.SetLives(container, life)
			return nil
		},
		Exec: func(result runtimetest.ExecResult) []string {
			return []string{"end", result.After.String(), fmt.Sprint(result.Code)}
		},
	})
}

// scriptedExec does what the command "end AFTER CODE" says.
func scriptedExec(_ context.Context, e runtimetest.Exec) runtimetest.ExecResult {
	if e.Cmd[0] != "end" {
		return runtimetest.ExecResult{Code: 127, Stderr: "not found"}
	}
	after, err := time.ParseDuration(e.Cmd[1])
	if err != nil {
		return runtimetest.ExecResult{Code: 2, Stderr: err.Error()}
	}
	var code int32
	if _, err := fmt.Sscan(e.Cmd[2], &code); err != nil {
		return runtimetest.ExecResult{Code: 2, Stderr: err.Error()}
	}
	return runtimetest.ExecResult{After: after, Code: code}
}
