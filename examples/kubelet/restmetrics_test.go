package main

import (
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// TestRequestsAreCounted gives the counters what client-go gives them, of which it takes one
// set in a process only.
func TestRequestsAreCounted(t *testing.T) {
	m := newRestMetrics()
	results{m.requests}.Increment(t.Context(), "200", "GET", "host:1")
	latencies{m.duration}.Observe(t.Context(), "GET", url.URL{Host: "host:1", Path: "/api/v1/nodes/a"}, time.Second)
	sizes{m.sent}.Observe(t.Context(), "GET", "host:1", -1)
	sizes{m.received}.Observe(t.Context(), "GET", "host:1", 100)
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.requests, m.duration, m.waited, m.sent, m.received)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, s := range f.GetMetric() {
			got[f.GetName()] = s.GetCounter().GetValue() + s.GetHistogram().GetSampleSum()
			if len(s.GetLabel()) > 3 {
				t.Errorf("%s has labels %v, want no path", f.GetName(), s.GetLabel())
			}
		}
	}
	want := map[string]float64{"rest_client_requests_total": 1, "rest_client_request_duration_seconds": 1, "rest_client_response_size_bytes": 100}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
