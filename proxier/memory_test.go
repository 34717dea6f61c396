package proxier_test

import (
	"runtime"
	"testing"
	"weak"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/nodekit-go/nodekit/proxier"
)

// TestTrackerKeepsNoObject: the objects of a large cluster are some hundred MiB, of
// which a Tracker needs a fraction.
func TestTrackerKeepsNoObject(t *testing.T) {
	tr := proxier.NewTracker(proxier.TrackerConfig{})
	svc, es := feedObjects(tr)
	tr.Delta()
	runtime.GC()
	if svc.Value() != nil {
		t.Error("the Tracker keeps the Service alive")
	}
	if es.Value() != nil {
		t.Error("the Tracker keeps the EndpointSlice alive")
	}
	if ports := tr.State().Ports; len(ports) != 1 || len(ports[0].Cluster) != 1 {
		t.Errorf("state is %v, want one port with one endpoint", ports)
	}
}

//go:noinline
func feedObjects(tr *proxier.Tracker) (weak.Pointer[corev1.Service], weak.Pointer[discoveryv1.EndpointSlice]) {
	svc, es := clusterService(1), sliceOf(1, "10.244.0.1")
	tr.SetService(svc)
	tr.SetEndpointSlice(es)
	return weak.Make(svc), weak.Make(es)
}
