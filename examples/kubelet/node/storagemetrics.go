package node

import (
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/status"

	"github.com/nodekit-go/nodekit/podworker/volume"
	"github.com/nodekit-go/nodekit/podworker/volume/csi"
)

// storageMetrics count what is done with volumes.
type storageMetrics struct {
	operations, calls *prometheus.HistogramVec
	cleaned, failed   prometheus.Gauge
}

// storageBuckets are those of the kubelet, in seconds.
func storageBuckets() []float64 {
	return []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600}
}

func newStorageMetrics(r register) *storageMetrics {
	return &storageMetrics{
		operations: r.histograms("storage_operation_duration_seconds", "How long something done with a volume took.", storageBuckets(), "migrated", "operation_name", "status", "volume_plugin"),
		calls:      r.histograms("csi_operations_seconds", "How long a call to a storage driver took.", storageBuckets(), "driver_name", "grpc_status_code", "method_name", "migrated"),
		cleaned:    r.gauge("kubelet_orphan_pod_cleaned_volumes", "Pods that are gone whose leftovers the last search has found."),
		failed:     r.gauge("kubelet_orphan_pod_cleaned_volumes_errors", "Pods that are gone whose leftovers could not be removed."),
	}
}

// statuses of an operation.
func outcome(err error) string {
	if err != nil {
		return "fail-unknown"
	}
	return "success"
}

// csiPlugin goes before the name of a driver.
const csiPlugin = "kubernetes.io/csi"

// attempted counts a volume that was set up, or was not.
func (m *storageMetrics) attempted(a volume.Attempt) {
	m.operations.WithLabelValues("false", "volume_mount", outcome(a.Err), a.Plugin).Observe(a.Took.Seconds())
}

// called counts a call to a driver, and what it undoes: what it does is counted with the volume.
func (m *storageMetrics) called(c csi.Call) {
	m.calls.WithLabelValues(c.Driver, status.Code(c.Err).String(), "/csi.v1.Node/"+c.Op, "false").Observe(c.Took.Seconds())
	operation := map[string]string{"NodeUnpublishVolume": "volume_unmount", "NodeUnstageVolume": "unmount_device", "NodeExpandVolume": "volume_fs_resize"}[c.Op]
	if operation != "" {
		m.operations.WithLabelValues("false", operation, outcome(c.Err), csiPlugin+":"+c.Driver).Observe(c.Took.Seconds())
	}
}
