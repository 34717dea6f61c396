package events_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/events"
)

func Example() {
	r := events.New(events.Config{
		Host: "node-a",
		Told: func(e *corev1.Event) {
			fmt.Printf("%s %s ×%d: %s\n", e.InvolvedObject.FieldPath, e.Reason, e.Count, e.Message)
		},
	})
	app := events.OfPod(newPod(), "app")
	r.Record(app, corev1.EventTypeNormal, "Started", "Container started")
	r.Record(app, corev1.EventTypeWarning, "Unhealthy", "Liveness probe failed: refused")
	r.Record(app, corev1.EventTypeWarning, "Unhealthy", "Liveness probe failed: refused")
	// Output:
	// spec.containers{app} Started ×1: Container started
	// spec.containers{app} Unhealthy ×1: Liveness probe failed: refused
	// spec.containers{app} Unhealthy ×2: Liveness probe failed: refused
}
