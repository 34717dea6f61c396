package proxy

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/conntrack"
	"github.com/nodekit-go/nodekit/proxier/source"
)

// metrics are kube-proxy's, by their names
// (https://kubernetes.io/docs/reference/instrumentation/metrics/). One loop programs
// both families, so that a round counts for each.
type metrics struct {
	registry *prometheus.Registry
	slis     *slis
	families []proxier.Family

	duration, full, partial, programming *prometheus.HistogramVec
	lastSynced, lastQueued, noLocal      *prometheus.GaugeVec
	failures, cleanupFailures            *prometheus.CounterVec
	endpointChanges, serviceChanges      prometheus.Counter
	healthz, livez, conntrackDeleted     *prometheus.CounterVec
	problems                             *prometheus.GaugeVec
	conntrackDuration                    *prometheus.HistogramVec
	// without are the ports whose policy wants an endpoint of this node that is not there.
	without *noLocalEndpoints
}

const (
	namespace = "kubeproxy"
	family    = "ip_family"
)

// syncBuckets go from a tenth of a millisecond, which most rounds take, to 26 s.
func syncBuckets() []float64 { return prometheus.ExponentialBuckets(0.0001, 2, 19) }

// programmingBuckets are those of the SLO of network programming latency.
func programmingBuckets() []float64 {
	b := []float64{0.01, 0.05, 0.1, 0.25, 0.5}
	b = append(b, prometheus.LinearBuckets(1, 1, 59)...)
	b = append(b, prometheus.LinearBuckets(60, 5, 12)...)
	return append(b, prometheus.LinearBuckets(120, 30, 7)...)
}

func newMetrics(families []proxier.Family) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), slis: newSLIs(), families: families}
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return register(m, prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, []string{family}))
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return register(m, prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels))
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return register(m, prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels))
	}
	m.duration = histogram("sync_proxy_rules_duration_seconds", "How long a round took.", syncBuckets())
	m.full = histogram("sync_full_proxy_rules_duration_seconds", "How long a round took that programmed the whole state.", syncBuckets())
	m.partial = histogram("sync_partial_proxy_rules_duration_seconds", "How long a round took that programmed changes.", syncBuckets())
	m.programming = histogram("network_programming_duration_seconds", "From the cause of a change of endpoints until it was in force.", programmingBuckets())
	m.lastSynced = gauge("sync_proxy_rules_last_timestamp_seconds", "When a round last succeeded.", family)
	m.lastQueued = gauge("sync_proxy_rules_last_queued_timestamp_seconds", "When a change was last taken.", family)
	m.noLocal = gauge("sync_proxy_rules_no_local_endpoints_total", "Ports with a Local traffic policy and no endpoint on this node.", "traffic_policy", family)
	m.failures = counter("sync_proxy_rules_nftables_sync_failures_total", "Rounds that failed.", family)
	m.cleanupFailures = counter("sync_proxy_rules_nftables_cleanup_failures_total", "Old generations that could not be removed at once.", family)
	m.problems = gauge("problems", "1 for what does not work for now; /healthz tells why.", "about")
	m.healthz = counter("proxy_healthz_total", "Answers of /healthz.", "code")
	m.livez = counter("proxy_livez_total", "Answers of /livez.", "code")
	m.conntrackDeleted = counter("conntrack_reconciler_deleted_entries_total", "Flows that were forgotten.", family)
	m.conntrackDuration = histogram("conntrack_reconciler_sync_duration_seconds", "How long a search for stale flows took.", syncBuckets())
	m.endpointChanges = counter("sync_proxy_rules_endpoint_changes_total", "Events of EndpointSlices.").WithLabelValues()
	m.serviceChanges = counter("sync_proxy_rules_service_changes_total", "Events of Services.").WithLabelValues()
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.without = &noLocalEndpoints{gauge: m.noLocal, of: map[proxier.Key][2]bool{}}
	for _, f := range families {
		m.failures.WithLabelValues(f.String())
		m.cleanupFailures.WithLabelValues(f.String())
		m.conntrackDeleted.WithLabelValues(f.String())
		for _, policy := range []string{"internal", "external"} {
			m.noLocal.WithLabelValues(policy, f.String())
		}
	}
	return m
}

func register[C prometheus.Collector](m *metrics, c C) C {
	m.registry.MustRegister(c)
	return c
}

// observe takes a round of the proxier.
func (m *metrics) observe(r proxier.Round) {
	now := time.Now()
	for _, f := range m.families {
		name := f.String()
		kind := m.partial
		if r.Reset {
			kind = m.full
		}
		m.duration.WithLabelValues(name).Observe(r.Took.Seconds())
		kind.WithLabelValues(name).Observe(r.Took.Seconds())
		m.lastQueued.WithLabelValues(name).Set(seconds(now.Add(-r.Took - r.Queued)))
		if r.Err != nil {
			m.failures.WithLabelValues(name).Inc()
			continue
		}
		m.lastSynced.WithLabelValues(name).Set(seconds(now))
		for _, at := range r.Triggers {
			m.programming.WithLabelValues(name).Observe(now.Sub(at).Seconds())
		}
	}
}

// follow adds the metrics of what waits to be in force, as status tells it.
func (m *metrics) follow(status func() proxier.Status) {
	waiting := func(name, help string, of func(proxier.Changes) int) {
		register(m, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, func() float64 {
			return float64(of(status().Pending))
		}))
	}
	waiting("sync_proxy_rules_endpoint_changes_pending", "Changes of EndpointSlices that are not in force.",
		func(c proxier.Changes) int { return c.EndpointSlices })
	waiting("sync_proxy_rules_service_changes_pending", "Changes of Services that are not in force.",
		func(c proxier.Changes) int { return c.Services })
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

// searched takes a search for stale flows.
func (m *metrics) searched(s conntrack.Search) {
	m.conntrackDuration.WithLabelValues(s.Family.String()).Observe(s.Took.Seconds())
	m.conntrackDeleted.WithLabelValues(s.Family.String()).Add(float64(s.Deleted))
}

// unswept counts an old generation that stays for now.
func (m *metrics) unswept(error) {
	for _, f := range m.families {
		m.cleanupFailures.WithLabelValues(f.String()).Inc()
	}
}

// answered counts an answer of the health server.
func (m *metrics) answered(path string, code int) {
	m.slis.observe("proxy", strings.TrimPrefix(path, "/"), code == http.StatusOK)
	switch path {
	case "/healthz":
		m.healthz.WithLabelValues(strconv.Itoa(code)).Inc()
	case "/livez":
		m.livez.WithLabelValues(strconv.Itoa(code)).Inc()
	}
}

// counted returns a Sink that counts what goes through to next.
func (m *metrics) counted(next source.Sink) source.Sink { return counted{next, m} }

type counted struct {
	source.Sink
	m *metrics
}

func (c counted) service() { c.m.serviceChanges.Inc() }

func (c counted) slice() { c.m.endpointChanges.Inc() }

// SetService implements source.Sink.
func (c counted) SetService(svc *corev1.Service) {
	c.service()
	c.Sink.SetService(svc)
}

// DeleteService implements source.Sink.
func (c counted) DeleteService(name types.NamespacedName) {
	c.service()
	c.Sink.DeleteService(name)
}

// SetEndpointSlice implements source.Sink.
func (c counted) SetEndpointSlice(es *discoveryv1.EndpointSlice) {
	c.slice()
	c.Sink.SetEndpointSlice(es)
}

// DeleteEndpointSlice implements source.Sink.
func (c counted) DeleteEndpointSlice(name types.NamespacedName) {
	c.slice()
	c.Sink.DeleteEndpointSlice(name)
}

// noLocalEndpoints is a proxier.Follower that counts the ports whose policy wants
// endpoints of this node where there are only others.
type noLocalEndpoints struct {
	gauge *prometheus.GaugeVec

	mu sync.Mutex // guards what follows
	of map[proxier.Key][2]bool
}

// Reset implements proxier.Follower.
func (n *noLocalEndpoints) Reset(s *proxier.State) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for k := range n.of {
		n.setLocked(k, [2]bool{})
	}
	for _, p := range s.Ports {
		n.setLocked(p.Key, lacking(p))
	}
}

// Applied implements proxier.Follower.
func (n *noLocalEndpoints) Applied(d proxier.Delta) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, k := range d.Remove {
		n.setLocked(k, [2]bool{})
	}
	for _, p := range d.Update {
		n.setLocked(p.Key, lacking(p))
	}
}

// lacking returns whether the internal and the external policy of p lack endpoints.
func lacking(p *proxier.ServicePort) [2]bool {
	none := p.HasEndpoints && len(p.Local) == 0
	return [2]bool{none && p.InternalLocal, none && p.ExternalLocal}
}

func (n *noLocalEndpoints) setLocked(k proxier.Key, now [2]bool) {
	before := n.of[k]
	for i, policy := range []string{"internal", "external"} {
		switch {
		case now[i] && !before[i]:
			n.gauge.WithLabelValues(policy, k.Family.String()).Inc()
		case !now[i] && before[i]:
			n.gauge.WithLabelValues(policy, k.Family.String()).Dec()
		}
	}
	if now == ([2]bool{}) {
		delete(n.of, k)
		return
	}
	n.of[k] = now
}
