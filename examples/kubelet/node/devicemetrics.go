package node

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nodekit-go/nodekit/allocatable/devices"
)

const (
	labelResource   = "resource_name"
	labelAPIVersion = "server_api_version"
)

// newDeviceMetrics counts what device plugins do, under the names of the kubelet.
func newDeviceMetrics(m *metrics) devices.Hooks {
	registered := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kubelet_device_plugin_registration_total",
		Help: "Cumulative number of device plugin registrations. Broken down by resource name.",
	}, []string{labelResource})
	allocated := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "kubelet_device_plugin_alloc_duration_seconds",
		Help:    "Duration in seconds to serve a device plugin Allocation request. Broken down by resource name.",
		Buckets: prometheus.DefBuckets,
	}, []string{labelResource})
	m.registry.MustRegister(registered, allocated)
	return devices.Hooks{
		Registered: func(resource string) { registered.WithLabelValues(resource).Inc() },
		Allocated: func(resource string, took time.Duration) {
			allocated.WithLabelValues(resource).Observe(took.Seconds())
		},
	}
}

// newPodResourcesMetrics counts the calls of the API podresources.
func newPodResourcesMetrics(m *metrics) func(method string, err error) {
	counter := func(name, help string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kubelet_pod_resources_endpoint_" + name, Help: help}, []string{labelAPIVersion})
		m.registry.MustRegister(c)
		return c
	}
	total := counter("requests_total", "Cumulative number of requests to the PodResource endpoint. Broken down by server api version.")
	calls, failed := map[string]*prometheus.CounterVec{}, map[string]*prometheus.CounterVec{}
	for method, name := range map[string]string{"List": "list", "Get": "get", "GetAllocatableResources": "get_allocatable"} {
		calls[method] = counter("requests_"+name, "Number of requests to the PodResource "+method+" endpoint. Broken down by server api version.")
		failed[method] = counter("errors_"+name, "Number of requests to the PodResource "+method+" endpoint which returned error. Broken down by server api version.")
	}
	return func(method string, err error) {
		total.WithLabelValues("v1").Inc()
		calls[method].WithLabelValues("v1").Inc()
		if err != nil {
			failed[method].WithLabelValues("v1").Inc()
		}
	}
}
