package probes

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"
)

// One attempt at one of many probes, from the heap to the heap.
func BenchmarkAttempt(b *testing.B) {
	e, err := New(Config{})
	if err != nil {
		b.Fatal(err)
	}
	p := ProberFunc(func(context.Context) (Result, error) { return Result{Outcome: Success, Message: "ok"}, nil })
	const probes = 10000
	for i := range probes {
		err := e.Add(Container{
			Ref:       Ref{ID: strconv.Itoa(i)},
			StartedAt: time.Now().Add(-time.Hour),
			Liveness:  &Probe{Prober: p, Schedule: Schedule{Period: time.Second}},
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		e.mu.Lock()
		do := e.launch(b.Context(), e.timers[0].w, e.now())
		e.mu.Unlock()
		do()
	}
}

// One attempt as the Engine makes it, and the server's part in it.
func BenchmarkHTTP(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("ok"))
	}))
	defer server.Close()
	p, err := HTTP{URL: server.URL + "/healthz"}.question()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if res, err := p.Probe(b.Context()); err != nil || res.Outcome != Success {
			b.Fatal(res, err)
		}
	}
}

func BenchmarkSnapshot(b *testing.B) {
	e, err := New(Config{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range 1000 {
		if err := e.Add(Container{Ref: Ref{ID: strconv.Itoa(i)}, Readiness: &Probe{Prober: TCP{}}}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if got := len(e.Snapshot()); got != 1000 {
			b.Fatal(got)
		}
	}
}
