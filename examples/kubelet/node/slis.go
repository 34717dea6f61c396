package node

import "github.com/prometheus/client_golang/prometheus"

// healthMetrics look at the node's health when they are asked, for /metrics/slis
// (https://kubernetes.io/docs/reference/instrumentation/slis/).
type healthMetrics struct {
	node  *Node
	now   *prometheus.Desc
	total *prometheus.CounterVec
}

// newHealthMetrics returns what serves /metrics/slis.
func newHealthMetrics(n *Node) *prometheus.Registry {
	r := register{prometheus.NewRegistry()}
	h := &healthMetrics{
		node:  n,
		now:   prometheus.NewDesc("kubernetes_healthcheck", "1 if the check passes, else 0.", []string{"name", "type"}, nil),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kubernetes_healthchecks_total", Help: "Checks that were made, by how they ended."}, []string{"name", "status", "type"}),
	}
	r.MustRegister(h)
	return r.Registry
}

// Describe implements prometheus.Collector.
func (h *healthMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- h.now
	h.total.Describe(ch)
}

// Collect implements prometheus.Collector.
func (h *healthMetrics) Collect(ch chan<- prometheus.Metric) {
	const kind = "healthz"
	for _, c := range h.node.checks() {
		passes, status := 1.0, "success"
		if err := c.Fault(); err != nil {
			passes, status = 0, "error"
		}
		h.total.WithLabelValues(c.Name, status, kind).Inc()
		ch <- prometheus.MustNewConstMetric(h.now, prometheus.GaugeValue, passes, c.Name, kind)
	}
	h.total.Collect(ch)
}
