package identity

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/certificate"
)

// The metrics have the kubelet's names
// (https://kubernetes.io/docs/reference/instrumentation/metrics/).

// clientMetrics are about a client certificate.
type clientMetrics struct {
	failures prometheus.Counter
	all      []prometheus.Collector
}

func newClientMetrics() clientMetrics {
	m := clientMetrics{failures: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "kubelet_certificate_manager_client_expiration_renew_errors", Help: "Attempts to renew the client certificate that failed.",
	})}
	m.all = []prometheus.Collector{m.failures}
	return m
}

func (m *clientMetrics) watch(of certificate.Manager) {
	m.all = append(m.all, remaining(of, "kubelet_certificate_manager_client_ttl_seconds", "Seconds until the client certificate expires; +Inf without one that is valid."))
}

// servingMetrics are about a serving certificate.
type servingMetrics struct {
	failures prometheus.Counter
	rotation prometheus.Histogram
	all      []prometheus.Collector
}

func newServingMetrics() servingMetrics {
	const day = 24 * 60 * 60
	m := servingMetrics{
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kubelet_server_expiration_renew_errors", Help: "Attempts to renew the serving certificate that failed.",
		}),
		rotation: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kubelet_certificate_manager_server_rotation_seconds", Help: "How long serving certificates lived before they were replaced.",
			Buckets: []float64{60, 60 * 60, 4 * 60 * 60, day, 7 * day, 30 * day, 90 * day, 180 * day, 360 * day, 1440 * day},
		}),
	}
	m.all = []prometheus.Collector{m.failures, m.rotation}
	return m
}

func (m *servingMetrics) watch(of certificate.Manager) {
	m.all = append(m.all, remaining(of, "kubelet_certificate_manager_server_ttl_seconds", "Seconds until the serving certificate expires; +Inf without one that is valid."))
}

// remaining is how long a certificate is still valid.
func remaining(of certificate.Manager, name, help string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
		if cert := of.Current(); cert != nil && cert.Leaf != nil {
			return math.Trunc(time.Until(cert.Leaf.NotAfter).Seconds())
		}
		return math.Inf(1)
	})
}
