package podsync

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// TestNothingIsResizedAtTheEnd ends a pod whose sidecar has other resources than it is to
// have: it is stopped with the pod, and nobody gives it what it asked for.
func TestNothingIsResizedAtTheEnd(t *testing.T) {
	pod := twoContainers()
	always := corev1.ContainerRestartPolicyAlways
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.InitContainers = []corev1.Container{{Name: "s", Image: "img:1", RestartPolicy: &always}}
	seen := podstatus.Observed{
		Sandboxes: []podstatus.Sandbox{ready("sb0", 0)},
		Containers: []podstatus.Instance{
			{Name: "s", ID: "s0", SandboxID: "sb0", State: podstatus.StateRunning, CreatedAt: noon.Add(-time.Hour)},
			exited("a", "a0", 0, time.Minute, 0), exited("b", "b0", 0, time.Minute, 0),
		},
	}
	seen.Sort()
	in := Inputs{Now: noon, Actuated: map[string]corev1.ResourceRequirements{"s0": {
		Requests: corev1.ResourceList{corev1.ResourceCPU: {}},
	}}}
	if got := Plan(pod, &seen, in); !got.KillPod || len(got.Resize) > 0 {
		t.Errorf("plan is\n%swant the pod killed and nothing resized", got)
	}
}
