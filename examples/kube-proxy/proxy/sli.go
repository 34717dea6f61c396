package proxy

import "github.com/prometheus/client_golang/prometheus"

// slis are what Kubernetes programs serve at /metrics/slis: how health checks went
// (https://kubernetes.io/docs/reference/instrumentation/slis/).
type slis struct {
	registry *prometheus.Registry
	last     *prometheus.GaugeVec
	total    *prometheus.CounterVec
}

func newSLIs() *slis {
	s := &slis{
		registry: prometheus.NewRegistry(),
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "kubernetes", Name: "healthcheck", Help: "The last result of a health check: 1 is success.",
		}, []string{"name", "type"}),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "kubernetes", Name: "healthchecks_total", Help: "Results of health checks.",
		}, []string{"name", "type", "status"}),
	}
	s.registry.MustRegister(s.last, s.total)
	return s
}

// observe takes the result of a check; typ is "healthz" or "livez".
func (s *slis) observe(name, typ string, ok bool) {
	status, value := "error", 0.0
	if ok {
		status, value = "success", 1
	}
	s.last.WithLabelValues(name, typ).Set(value)
	s.total.WithLabelValues(name, typ, status).Inc()
}
