package proxier_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/nodekit-go/nodekit/proxier"
)

// Whoever may write a Service or an EndpointSlice must not be able to stop the
// proxier of every node with one large object: its cost is linear, where a square
// of its size would take minutes.
func TestHugeObjects(t *testing.T) {
	const size, limit = 30_000, 20 * time.Second
	reported := 0
	tracker := proxier.NewTracker(proxier.TrackerConfig{Report: func(proxier.Problem) { reported++ }})
	begin := time.Now()
	for i := range 2 { // two that want the same addresses
		svc := clusterService(i)
		for n := range size {
			svc.Spec.ExternalIPs = append(svc.Spec.ExternalIPs, fmt.Sprintf("11.%d.%d.%d", n>>16, n>>8&255, n&255))
		}
		svc.Spec.Ports = []corev1.ServicePort{{Port: 80}}
		tracker.SetService(svc)
	}
	es := sliceOf(1, "10.244.0.1")
	for range size {
		es.Endpoints = append(es.Endpoints, discoveryv1.Endpoint{Addresses: []string{"127.0.0.1"}})
	}
	tracker.SetEndpointSlice(es)
	tracker.Delta()
	if reported != 2*size {
		t.Errorf("%d problems were reported, want one for each address of the second Service and each endpoint", reported)
	}
	es.Endpoints[0].Addresses[0] = "10.244.0.2"
	tracker.SetEndpointSlice(es)
	if d := tracker.Delta(); len(d.Update) != 1 || reported != 2*size {
		t.Errorf("a changed endpoint makes %d updates, %d problems are reported, want 1 and no more than before", len(d.Update), reported)
	}
	if took := time.Since(begin); took > limit {
		t.Errorf("it took %v, want less than %v", took, limit)
	}
}
