package node

import (
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nodekit-go/nodekit/examples/internal/program"
	"github.com/nodekit-go/nodekit/runtime/server"
)

// requestMetrics count the requests to the node's API.
type requestMetrics struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inflight *prometheus.GaugeVec
}

func newRequestMetrics(r register) *requestMetrics {
	labels := []string{"method", "path", "server_type", "long_running"}
	m := &requestMetrics{
		total:    r.counters("kubelet_http_requests_total", "Requests to the API of the node.", labels...),
		duration: r.histograms("kubelet_http_requests_duration_seconds", "How long requests to the API of the node took.", prometheus.DefBuckets, labels...),
		inflight: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "kubelet_http_inflight_requests", Help: "Requests that are being answered."}, labels),
	}
	r.MustRegister(m.inflight)
	return m
}

// began counts a request, and its end.
func (m *requestMetrics) began(r server.Request) (ended func()) {
	labels := []string{r.Method, r.Path, r.Server, strconv.FormatBool(r.LongRunning)}
	at := time.Now()
	m.total.WithLabelValues(labels...).Inc()
	m.inflight.WithLabelValues(labels...).Inc()
	return func() {
		m.inflight.WithLabelValues(labels...).Dec()
		m.duration.WithLabelValues(labels...).Observe(time.Since(at).Seconds())
	}
}

// newBuildInfo tells what was built from what.
func newBuildInfo() prometheus.Collector {
	version := program.Version()
	numbers := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "kubernetes_build_info", Help: "The build of this program.", ConstLabels: prometheus.Labels{
		"major": numbers[0], "minor": numbers[1], "git_version": version, "git_commit": "", "git_tree_state": "", "build_date": "",
		"go_version": runtime.Version(), "compiler": runtime.Compiler, "platform": runtime.GOOS + "/" + runtime.GOARCH,
	}})
	g.Set(1)
	return g
}
