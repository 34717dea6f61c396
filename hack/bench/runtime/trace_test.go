package runtime

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// recorder is a tracer provider that keeps the spans that have ended.
type recorder struct {
	noop.TracerProvider
	mu    sync.Mutex // guards ended
	ended []spanned
}

// spanned is what is wanted of a span.
type spanned struct {
	Name, Parent string
	Kind         trace.SpanKind
	Failed       bool
}

func (r *recorder) Tracer(string, ...trace.TracerOption) trace.Tracer { return tracer{of: r} }

// take returns the spans since the last call.
func (r *recorder) take() []spanned {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.ended = nil }()
	return slices.Clone(r.ended)
}

type tracer struct {
	noop.Tracer
	of *recorder
}

func (t tracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	cfg := trace.NewSpanStartConfig(opts...)
	s := &span{of: t.of, seen: spanned{Name: name, Kind: trace.ValidateSpanKind(cfg.SpanKind())}}
	if parent, ok := trace.SpanFromContext(ctx).(*span); ok {
		s.seen.Parent = parent.seen.Name
	}
	return trace.ContextWithSpan(ctx, s), s
}

// span is one call, used by one goroutine at a time.
type span struct {
	noop.Span
	of   *recorder
	seen spanned
}

func (s *span) IsRecording() bool { return true }

func (s *span) SetStatus(code codes.Code, _ string) { s.seen.Failed = code == codes.Error }

func (s *span) End(...trace.SpanEndOption) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.ended = append(s.of.ended, s.seen)
}

// TestOpenTelemetryTracesCalls: the client takes OpenTelemetry's handler as it is. Each
// call is a span, in that of the caller.
func TestOpenTelemetryTracesCalls(t *testing.T) {
	s := runtimetest.Start(t, runtimetest.Config{})
	spans := &recorder{}
	c, err := runtime.Dial(t.Context(), "/in/this/process", runtime.Config{
		Dialer: s.DialContext, Trace: otelgrpc.NewClientHandler(otelgrpc.WithTracerProvider(spans)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	client := func(method, parent string, failed bool) spanned {
		return spanned{Name: "runtime.v1.RuntimeService/" + method, Parent: parent, Kind: trace.SpanKindClient, Failed: failed}
	}
	want := func(step string, want ...spanned) {
		t.Helper()
		if diff := cmp.Diff(want, spans.take()); diff != "" {
			t.Errorf("spans of %s (-want +got):\n%s", step, diff)
		}
	}
	want("the connection", client("Version", "", false))

	ctx, sync := spans.Tracer("").Start(t.Context(), "sync of a pod")
	if _, err := c.Status(ctx, false); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ContainerStatus(ctx, "none", false); err == nil {
		t.Error("a container that is not there has a status")
	}
	sync.End()
	want("a sync", client("Status", "sync of a pod", false), client("ContainerStatus", "sync of a pod", true),
		spanned{Name: "sync of a pod", Kind: trace.SpanKindInternal})
}
