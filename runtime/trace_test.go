package runtime_test

import (
	"context"
	"sync"
	"testing"

	"google.golang.org/grpc/stats"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// tracer notes the methods of calls, and how many have ended.
type tracer struct {
	mu      sync.Mutex // guards the fields below
	methods []string
	ended   int
}

func (t *tracer) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.methods = append(t.methods, info.FullMethodName)
	return ctx
}

func (t *tracer) HandleRPC(_ context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.End); ok {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.ended++
	}
}

func (t *tracer) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (t *tracer) HandleConn(context.Context, stats.ConnStats) {}

func TestCallsAreTraced(t *testing.T) {
	server := runtimetest.Start(t, runtimetest.Config{})
	trace := &tracer{}
	c, err := runtime.Dial(t.Context(), "/in/this/process", runtime.Config{
		Dialer: server.DialContext, Trace: trace,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	trace.mu.Lock()
	defer trace.mu.Unlock()
	if len(trace.methods) != 1 || trace.methods[0] != "/runtime.v1.RuntimeService/Version" || trace.ended != 1 {
		t.Errorf("traced are %v, %d have ended", trace.methods, trace.ended)
	}
}

func BenchmarkTracedCall(b *testing.B) {
	server := runtimetest.Start(b, runtimetest.Config{})
	for name, trace := range map[string]stats.Handler{"untraced": nil, "traced": &tracer{}} {
		b.Run(name, func(b *testing.B) {
			c, err := runtime.Dial(b.Context(), "/in/this/process", runtime.Config{
				Dialer: server.DialContext, Trace: trace,
			})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = c.Close() })
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Version(b.Context(), ""); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
