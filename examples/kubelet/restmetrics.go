package main

import (
	"context"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/metrics"
)

// restMetrics count the requests to the API server, under the names that Kubernetes'
// programs have for them
// (https://kubernetes.io/docs/reference/instrumentation/metrics/).
type restMetrics struct {
	requests         *prometheus.CounterVec
	duration, waited *prometheus.HistogramVec
	sent, received   *prometheus.HistogramVec
}

// countRequests has client-go count the requests of this process, of which it takes one
// counter only. It is called once.
func countRequests() []prometheus.Collector {
	m := newRestMetrics()
	metrics.Register(metrics.RegisterOpts{
		RequestResult:      results{m.requests},
		RequestLatency:     latencies{m.duration},
		RateLimiterLatency: latencies{m.waited},
		RequestSize:        sizes{m.sent},
		ResponseSize:       sizes{m.received},
	})
	return []prometheus.Collector{m.requests, m.duration, m.waited, m.sent, m.received}
}

func newRestMetrics() *restMetrics {
	seconds := []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60}
	bytes := []float64{64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216}
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "rest_client_" + name, Help: help, Buckets: buckets}, []string{"verb", "host"})
	}
	return &restMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rest_client_requests_total", Help: "Requests to the API server."}, []string{"code", "method", "host"}),
		duration: histogram("request_duration_seconds", "How long requests to the API server took.", seconds),
		waited:   histogram("rate_limiter_duration_seconds", "How long requests to the API server were held back.", seconds),
		sent:     histogram("request_size_bytes", "The size of requests to the API server.", bytes),
		received: histogram("response_size_bytes", "The size of answers of the API server.", bytes),
	}
}

type results struct{ *prometheus.CounterVec }

// Increment implements metrics.ResultMetric.
func (r results) Increment(_ context.Context, code, method, host string) {
	r.WithLabelValues(code, method, host).Inc()
}

type latencies struct{ *prometheus.HistogramVec }

// Observe implements metrics.LatencyMetric.
func (l latencies) Observe(_ context.Context, verb string, u url.URL, took time.Duration) {
	l.WithLabelValues(verb, u.Host).Observe(took.Seconds())
}

type sizes struct{ *prometheus.HistogramVec }

// Observe implements metrics.SizeMetric. Sizes that are not known are less than 0.
func (s sizes) Observe(_ context.Context, verb, host string, size float64) {
	if size >= 0 {
		s.WithLabelValues(verb, host).Observe(size)
	}
}
