package podsync

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// sandboxProblem returns why a pod needs a new sandbox, empty if it does not, and
// the attempt a new one has.
func sandboxProblem(pod *corev1.Pod, seen *podstatus.Observed) (problem string, attempt uint32) {
	if len(seen.Sandboxes) == 0 {
		return "no pod sandbox exists", 0
	}
	latest := &seen.Sandboxes[0]
	ready := 0
	for i := range seen.Sandboxes {
		if seen.Sandboxes[i].Ready {
			ready++
		}
	}
	attempt = latest.Attempt + 1
	switch {
	case ready > 1:
		return "multiple pod sandboxes are ready and need to be reconciled", attempt
	case !latest.Ready:
		return "pod sandbox is not ready", attempt
	case latest.HostNetwork != pod.Spec.HostNetwork:
		return "network namespace mode changed and sandbox needs to be recreated", attempt
	case !latest.HostNetwork && latest.NetworkKnown && len(latest.IPs) == 0:
		return "pod sandbox has no IP address", attempt
	}
	return "", latest.Attempt
}
