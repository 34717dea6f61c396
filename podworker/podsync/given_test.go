package podsync

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// TestChangeThatIsTakenBack before it was carried out, as one that the runtime refuses,
// leaves nothing to do.
func TestChangeThatIsTakenBack(t *testing.T) {
	cpu := func(amount string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}}
	}
	g := &given{
		Allocated: map[string]corev1.ResourceRequirements{"app": cpu("200m")},
		Actuated:  map[string]corev1.ResourceRequirements{"1": cpu("100m")},
	}
	seen := &podstatus.Observed{Containers: []podstatus.Instance{{Name: "app", ID: "1", State: podstatus.StateRunning}}}
	if got := g.forget(seen); got != 1 {
		t.Errorf("%d containers change, want 1", got)
	}
	g.Allocated["app"] = cpu("100m")
	if got := g.forget(seen); got != 0 || len(g.conditions()) > 0 {
		t.Errorf("%d containers change after that was taken back, conditions %v", got, g.conditions())
	}
}
