package node

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nodekit-go/nodekit/allocatable/pinning"
	"github.com/nodekit-go/nodekit/allocatable/topology"
)

// alignmentMetrics are the kubelet's of its managers of CPUs, memory and topology.
type alignmentMetrics struct {
	cpuAsked, cpuFailed       prometheus.Counter
	memoryAsked, memoryFailed prometheus.Counter
	pods, podsFailed          prometheus.Counter
	took                      prometheus.Histogram
	aligned, unaligned        *prometheus.CounterVec
	// cpus are counted when somebody asks; nil before there are any.
	cpus                      atomic.Pointer[pinning.CPUs]
	shared, exclusive, byNode *prometheus.Desc
}

// The labels of alignment, and their values.
const (
	labelScope    = "scope"
	labelBoundary = "boundary"
	boundaryCore  = "physical_cpu"
	boundaryNode  = "numa_node"
	boundaryCache = "uncore_cache"
)

func newAlignmentMetrics(registry *prometheus.Registry) *alignmentMetrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "kubelet", Name: name, Help: help})
		registry.MustRegister(c)
		return c
	}
	vector := func(name, help string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "kubelet", Name: name, Help: help}, []string{labelScope, labelBoundary})
		registry.MustRegister(c)
		return c
	}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("kubelet_"+name, help, labels, nil)
	}
	m := &alignmentMetrics{
		cpuAsked:     counter("cpu_manager_pinning_requests_total", "Containers that asked for CPUs to themselves."),
		cpuFailed:    counter("cpu_manager_pinning_errors_total", "Containers that asked for CPUs to themselves and got none."),
		memoryAsked:  counter("memory_manager_pinning_requests_total", "Containers that asked for memory of their own."),
		memoryFailed: counter("memory_manager_pinning_errors_total", "Containers that asked for memory of their own and got none."),
		pods:         counter("topology_manager_admission_requests_total", "Pods for which NUMA nodes were looked for."),
		podsFailed:   counter("topology_manager_admission_errors_total", "Pods for which there were none."),
		aligned:      vector("container_aligned_compute_resources_count", "Pods and containers whose resources are aligned."),
		unaligned:    vector("container_aligned_compute_resources_failure_count", "Pods and containers whose resources could not be aligned."),
		shared:       desc("cpu_manager_shared_pool_size_millicores", "The CPUs that can be given to containers, in thousandths."),
		exclusive:    desc("cpu_manager_exclusive_cpu_allocation_count", "The CPUs that containers have to themselves."),
		byNode:       desc("cpu_manager_allocation_per_numa", "The CPUs that containers have to themselves, by NUMA node.", boundaryNode),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "kubelet", Name: "topology_manager_admission_duration_ms",
			Help: "How long it took to find NUMA nodes for a pod, in milliseconds.", Buckets: prometheus.LinearBuckets(.05, .1, 15),
		}),
	}
	registry.MustRegister(m.took, m)
	return m
}

// follow has the CPUs counted.
func (m *alignmentMetrics) follow(c *pinning.CPUs) { m.cpus.Store(c) }

// Describe names what is counted when somebody asks.
func (m *alignmentMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.shared, m.exclusive, m.byNode} {
		ch <- d
	}
}

// Collect counts.
func (m *alignmentMetrics) Collect(ch chan<- prometheus.Metric) {
	var t pinning.CPUTotals
	if c := m.cpus.Load(); c != nil {
		t = c.Totals()
	}
	tell := func(d *prometheus.Desc, value int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	tell(m.shared, 1000*t.Shared)
	tell(m.exclusive, t.Exclusive)
	for node, cpus := range t.ByNode {
		if cpus > 0 {
			tell(m.byNode, cpus, strconv.Itoa(node))
		}
	}
}

// askedCPUs counts a container that asked for CPUs to itself.
func (m *alignmentMetrics) askedCPUs(a pinning.CPUAnswer, o pinning.CPUOptions) {
	m.cpuAsked.Inc()
	scope := topology.PerContainer.String()
	switch {
	case a.Err != nil:
		m.cpuFailed.Inc()
		if o.FullCores {
			m.unaligned.WithLabelValues(scope, boundaryCore).Inc()
		}
		return
	case o.FullCores:
		m.aligned.WithLabelValues(scope, boundaryCore).Inc()
	}
	if a.OneCache && !a.Had {
		m.aligned.WithLabelValues(scope, boundaryCache).Inc()
	}
}

// askedMemory counts a container that asked for memory of its own.
func (m *alignmentMetrics) askedMemory(err error) {
	m.memoryAsked.Inc()
	if err != nil {
		m.memoryFailed.Inc()
	}
}

// decided counts what was decided for the strictest policy, which promises alignment.
func (m *alignmentMetrics) decided(p topology.Policy, s topology.Scope, d topology.Decision) {
	switch {
	case p != topology.SingleNode:
	case d.Admitted:
		m.aligned.WithLabelValues(s.String(), boundaryNode).Inc()
	default:
		m.unaligned.WithLabelValues(s.String(), boundaryNode).Inc()
	}
}

// admitted counts a pod. Without a policy it is not for want of NUMA nodes that it is
// refused.
func (m *alignmentMetrics) admitted(p topology.Policy, took time.Duration, err error) {
	m.pods.Inc()
	m.took.Observe(float64(took.Milliseconds()))
	if err != nil && p != topology.None {
		m.podsFailed.Inc()
	}
}
