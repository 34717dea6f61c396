package source

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/proxier"
)

var _ Sink = (*proxier.Feed)(nil)

// recorder is a Sink that writes down what it gets.
type recorder struct {
	mu    sync.Mutex
	lines []string
	wake  chan struct{} // size 1
}

func newRecorder() *recorder { return &recorder{wake: make(chan struct{}, 1)} }

func (r *recorder) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *recorder) SetService(svc *corev1.Service) {
	r.add("set Service %s/%s %s", svc.Namespace, svc.Name, svc.Spec.ClusterIP)
}

func (r *recorder) DeleteService(name types.NamespacedName) { r.add("delete Service %s", name) }

func (r *recorder) SetEndpointSlice(es *discoveryv1.EndpointSlice) { r.add("set %s", show(es)) }

func (r *recorder) DeleteEndpointSlice(name types.NamespacedName) {
	r.add("delete EndpointSlice %s", name)
}

func (r *recorder) Synced() { r.add("synced") }

// take returns what was written since the last take, sorted: the order between
// objects means nothing.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	r.lines = nil
	slices.Sort(lines)
	return lines
}

func (r *recorder) expect(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, r.take()); diff != "" {
		t.Errorf("the sink got (-want +got):\n%s", diff)
	}
}

// await waits until the sink got line.
func (r *recorder) await(t *testing.T, line string) {
	t.Helper()
	for {
		r.mu.Lock()
		found := slices.Contains(r.lines, line)
		r.mu.Unlock()
		if found {
			return
		}
		select {
		case <-r.wake:
		case <-t.Context().Done():
			t.Fatalf("the sink never got %q; it got %q", line, r.take())
		}
	}
}

// show returns a slice as "ns/name web=8080/TCP: 10.0.0.1 ready serving".
func show(es *discoveryv1.EndpointSlice) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s", es.Namespace, es.Labels[discoveryv1.LabelServiceName])
	for _, p := range es.Ports {
		fmt.Fprintf(&b, " %s=%d/%s", *p.Name, *p.Port, *p.Protocol)
	}
	for _, e := range es.Endpoints {
		fmt.Fprintf(&b, "; %s", e.Addresses[0])
		for _, c := range []struct {
			word string
			set  *bool
		}{{"ready", e.Conditions.Ready}, {"serving", e.Conditions.Serving}, {"terminating", e.Conditions.Terminating}} {
			if c.set != nil && *c.set {
				b.WriteString(" " + c.word)
			}
		}
	}
	return b.String()
}
