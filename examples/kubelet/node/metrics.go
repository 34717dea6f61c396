package node

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
	"github.com/nodekit-go/nodekit/podworker/statuswriter"
)

// metrics are the kubelet's, by their names, of what this node does
// (https://kubernetes.io/docs/reference/instrumentation/metrics/).
type metrics struct {
	registry *prometheus.Registry

	workers, statuses, calls *prometheus.HistogramVec
	podStart, workerStart    prometheus.Histogram
	relist, relistInterval   prometheus.Histogram
	callsTotal, callErrors   *prometheus.CounterVec
	started                  *prometheus.CounterVec
	orphans                  prometheus.Counter
	pods                     podTimes
	counts
}

// counts are the metrics of single matters.
type counts struct {
	tally    *tally
	startup  *startup
	storage  *storageMetrics
	requests *requestMetrics
	probes   *probeMetrics
	// alignment counts what is given of NUMA nodes.
	alignment *alignmentMetrics
}

// podTimes are when pods were first seen, until they run.
type podTimes struct {
	mu sync.Mutex // guards the fields below
	// seen are pods that no worker has looked at, waiting those that do not run yet.
	seen, waiting map[types.UID]time.Time
	relisted      time.Time
}

// The labels of the kubelet.
const (
	labelOperation = "operation_type"
	labelContainer = "container_type"
)

func newMetrics(name string) *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	m.pods.seen, m.pods.waiting = map[types.UID]time.Time{}, map[types.UID]time.Time{}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "kubelet", Name: name, Help: help, Buckets: buckets}, labels)
		m.registry.MustRegister(h)
		return h
	}
	single := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "kubelet", Name: name, Help: help, Buckets: buckets})
		m.registry.MustRegister(h)
		return h
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "kubelet", Name: name, Help: help}, labels)
		m.registry.MustRegister(c)
		return c
	}
	m.workers = histogram("pod_worker_duration_seconds", "How long one call for a pod took.", prometheus.DefBuckets, labelOperation)
	m.workerStart = single("pod_worker_start_duration_seconds", "From the first sight of a pod until its worker looked at it.", prometheus.DefBuckets)
	m.podStart = single("pod_start_duration_seconds", "From the first sight of a pod until it ran.", startBuckets())
	m.statuses = histogram("pod_status_sync_duration_seconds", "From the change of a status until the API server had it.", startBuckets())
	m.relist = single("pleg_relist_duration_seconds", "How long it took to list what the runtime has.", prometheus.DefBuckets)
	m.relistInterval = single("pleg_relist_interval_seconds", "The time between two lists.", prometheus.DefBuckets)
	m.calls = histogram("runtime_operations_duration_seconds", "How long a call to the runtime took.", callBuckets(), labelOperation)
	m.callsTotal = counter("runtime_operations_total", "Calls to the runtime.", labelOperation)
	m.callErrors = counter("runtime_operations_errors_total", "Calls to the runtime that failed.", labelOperation)
	m.started = counter("started_containers_total", "Containers that were started.", labelContainer)
	m.orphans = counter("orphaned_runtime_pods_total", "Pods of the runtime that nobody wanted.").WithLabelValues()
	node := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "kubelet", Name: "node_name", Help: "The name of the node.", ConstLabels: prometheus.Labels{"node": name}})
	node.Set(1)
	r := register{m.registry}
	m.counts = counts{tally: newTally(r), startup: newStartup(r), storage: newStorageMetrics(r), requests: newRequestMetrics(r), probes: newProbeMetrics(), alignment: newAlignmentMetrics(m.registry)}
	m.registry.MustRegister(node, newBuildInfo(), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// startBuckets go from half a second to an hour, callBuckets from five milliseconds on, as
// in the kubelet.
func startBuckets() []float64 {
	return []float64{0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}
}

func callBuckets() []float64 { return prometheus.ExponentialBuckets(.005, 2.5, 14) }

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// called counts a call to the runtime.
func (m *metrics) called(method string, took time.Duration, err error) {
	op := operation(method)
	m.calls.WithLabelValues(op).Observe(took.Seconds())
	m.callsTotal.WithLabelValues(op).Inc()
	if err != nil {
		m.callErrors.WithLabelValues(op).Inc()
	}
}

// operation is what the kubelet calls a method of the runtime: run_podsandbox for
// RunPodSandbox, else its words in lower case.
func operation(method string) string {
	method = strings.ReplaceAll(method, "PodSandbox", "Podsandbox")
	var b strings.Builder
	for i, r := range method {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteString(strings.ToLower(string(r)))
	}
	return b.String()
}

// sees notes that a pod is new to the node.
func (m *metrics) sees(pod *corev1.Pod) {
	m.startup.sees(pod)
	m.pods.mu.Lock()
	defer m.pods.mu.Unlock()
	m.pods.seen[pod.UID], m.pods.waiting[pod.UID] = time.Now(), time.Now()
}

// forgets drops a pod.
func (m *metrics) forgets(uid types.UID) {
	m.tally.forgets(uid)
	m.startup.forgets(uid)
	m.probes.forgets(uid)
	m.pods.mu.Lock()
	defer m.pods.mu.Unlock()
	delete(m.pods.seen, uid)
	delete(m.pods.waiting, uid)
}

// works counts a call for a pod when it ends.
func (m *metrics) works(uid types.UID, kind string) (end func()) {
	m.pods.mu.Lock()
	seen, first := m.pods.seen[uid]
	delete(m.pods.seen, uid)
	m.pods.mu.Unlock()
	began := time.Now()
	if first {
		m.workerStart.Observe(began.Sub(seen).Seconds())
	}
	if first && kind == "sync" {
		kind = "create"
	}
	return func() { m.workers.WithLabelValues(kind).Observe(time.Since(began).Seconds()) }
}

// shows takes a status of a pod: the first one that runs ends its start.
func (m *metrics) shows(pod *corev1.Pod, st *corev1.PodStatus) {
	m.tally.shows(pod, st)
	m.startup.shows(pod, st)
	uid := pod.UID
	if st.Phase != corev1.PodRunning && !podstatus.IsTerminal(st.Phase) {
		return
	}
	m.pods.mu.Lock()
	since, waits := m.pods.waiting[uid]
	delete(m.pods.waiting, uid)
	m.pods.mu.Unlock()
	if waits && st.Phase == corev1.PodRunning {
		m.podStart.Observe(time.Since(since).Seconds())
	}
}

// told counts what an event tells of a pod: the start of a container, or what failed.
func (m *metrics) told(pod *corev1.Pod, container, reason, message string) {
	m.tally.told(pod, container, reason, message)
	m.startup.told(pod, reason)
	if reason == "Started" {
		m.started.WithLabelValues(kindOf(pod, container)).Inc()
	}
}

// relisted counts a look at the runtime.
func (m *metrics) relisted(began time.Time) {
	m.relist.Observe(time.Since(began).Seconds())
	m.pods.mu.Lock()
	last := m.pods.relisted
	m.pods.relisted = began
	m.pods.mu.Unlock()
	if !last.IsZero() {
		m.relistInterval.Observe(began.Sub(last).Seconds())
	}
}

// wrote counts a status that the API server has.
func (m *metrics) wrote(w statuswriter.Write) {
	if w.Err == nil && w.Patched {
		m.statuses.WithLabelValues().Observe(time.Since(w.Changed).Seconds())
	}
}
