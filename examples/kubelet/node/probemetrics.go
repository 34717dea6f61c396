package node

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/probes"
)

// probeMetrics count the attempts of probes, for /metrics/probes.
type probeMetrics struct {
	registry *prometheus.Registry
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec

	mu sync.Mutex // guards counted
	// counted are the series of each pod, which go with it: they outlive its containers,
	// as with the kubelet, so that who counts failures sees those of all lives.
	counted map[types.UID]map[probeSeries]probeCounts
}

// probeCounts are the series of a probe and a result: looking them up by their labels each
// time costs more than to count.
type probeCounts struct {
	total    prometheus.Counter
	duration prometheus.Observer // nil: nothing has been timed
}

// probeSeries names what is counted of a probe.
type probeSeries struct {
	kind, result              string
	container, pod, namespace string
	uid                       types.UID
}

func newProbeMetrics() *probeMetrics {
	m := &probeMetrics{registry: prometheus.NewRegistry(), counted: map[types.UID]map[probeSeries]probeCounts{}}
	m.total = prometheus.NewCounterVec(prometheus.CounterOpts{Name: probes.MetricTotal, Help: "Attempts of probes, by their result."},
		[]string{"probe_type", "result", "container", "pod", "namespace", "pod_uid"})
	m.duration = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: probes.MetricDuration, Help: "How long attempts took that did not fail."},
		[]string{"probe_type", "container", "pod", "namespace"})
	m.registry.MustRegister(m.total, m.duration, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// attempted counts an attempt.
func (m *probeMetrics) attempted(a probes.Attempt) {
	s := probeSeries{a.Kind.String(), a.MetricResult(), a.Ref.Name, a.Ref.Pod, a.Ref.Namespace, a.Ref.UID}
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.counted[s.uid]
	if of == nil {
		of = map[probeSeries]probeCounts{}
		m.counted[s.uid] = of
	}
	counts, known := of[s]
	if !known {
		counts.total = m.total.WithLabelValues(s.values()...)
		if a.Timed() {
			counts.duration = m.duration.WithLabelValues(s.durationValues()...)
		}
		of[s] = counts
	}
	counts.total.Inc()
	if counts.duration != nil {
		counts.duration.Observe(a.Duration.Seconds())
	}
}

func (s probeSeries) values() []string {
	return []string{s.kind, s.result, s.container, s.pod, s.namespace, string(s.uid)}
}

func (s probeSeries) durationValues() []string {
	return []string{s.kind, s.container, s.pod, s.namespace}
}

// forgets drops a pod that is gone. The next pod of its name goes on with its durations,
// which have no UID.
func (m *probeMetrics) forgets(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	gone := m.counted[uid]
	delete(m.counted, uid)
	for s := range gone {
		m.total.DeleteLabelValues(s.values()...)
		if !m.timesLocked(s) {
			m.duration.DeleteLabelValues(s.durationValues()...)
		}
	}
}

// timesLocked reports whether a pod has the durations of a series.
func (m *probeMetrics) timesLocked(gone probeSeries) bool {
	for _, of := range m.counted {
		for s := range of {
			if s.kind == gone.kind && s.container == gone.container && s.pod == gone.pod && s.namespace == gone.namespace {
				return true
			}
		}
	}
	return false
}
