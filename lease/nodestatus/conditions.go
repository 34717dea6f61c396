package nodestatus

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// text is what a condition says for one of its values. event is the reason of the event
// that tells of it, after "Node".
type text struct{ reason, message, event string }

// pressureTexts are the kubelet's words for a pressure: yes and no.
type pressureTexts struct {
	kind    corev1.NodeConditionType
	yes, no text
}

// pressures are the conditions before Ready, in their order.
func pressures() []pressureTexts {
	return []pressureTexts{
		{
			corev1.NodeMemoryPressure,
			text{"KubeletHasInsufficientMemory", "kubelet has insufficient memory available", "NodeHasInsufficientMemory"},
			text{"KubeletHasSufficientMemory", "kubelet has sufficient memory available", "NodeHasSufficientMemory"},
		},
		{
			corev1.NodeDiskPressure,
			text{"KubeletHasDiskPressure", "kubelet has disk pressure", "NodeHasDiskPressure"},
			text{"KubeletHasNoDiskPressure", "kubelet has no disk pressure", "NodeHasNoDiskPressure"},
		},
		{
			corev1.NodePIDPressure,
			text{"KubeletHasInsufficientPID", "kubelet has insufficient PID available", "NodeHasInsufficientPID"},
			text{"KubeletHasSufficientPID", "kubelet has sufficient PID available", "NodeHasSufficientPID"},
		},
	}
}

// setConditions writes the conditions that a kubelet owns; Ready is the last of new
// ones. Others stay.
func setConditions(n *corev1.Node, f Facts, now time.Time) []Event {
	var events []Event
	under := []bool{f.memory, f.disk, f.pid}
	for i, p := range pressures() {
		status, t := corev1.ConditionFalse, p.no
		if under[i] {
			status, t = corev1.ConditionTrue, p.yes
		}
		if setCondition(n, p.kind, status, t, now) {
			events = append(events, statusEvent(n.Name, t.event))
		}
	}
	existed := condition(n.Status.Conditions, corev1.NodeReady) != nil
	status, t := readiness(n, f)
	// The first Ready of a Node is not worth an event.
	if setCondition(n, corev1.NodeReady, status, t, now) && existed {
		events = append(events, statusEvent(n.Name, t.event))
	}
	return events
}

// readiness returns what the condition Ready says.
func readiness(n *corev1.Node, f Facts) (corev1.ConditionStatus, text) {
	reasons := f.notReady
	var missing []string
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, corev1.ResourceEphemeralStorage} {
		if _, ok := n.Status.Capacity[name]; !ok && (name != corev1.ResourceEphemeralStorage || !f.NoLocalStorage) {
			missing = append(missing, string(name))
		}
	}
	if len(missing) > 0 {
		reasons = append(slices.Clip(reasons), "missing node capacity for resources: "+strings.Join(missing, ", "))
	}
	if len(reasons) == 0 {
		return corev1.ConditionTrue, text{"KubeletReady", "kubelet is posting ready status", "NodeReady"}
	}
	return corev1.ConditionFalse, text{"KubeletNotReady", aggregate(reasons), "NodeNotReady"}
}

// aggregate writes several reasons as the kubelet does: each once, in brackets.
func aggregate(reasons []string) string {
	var unique []string
	seen := map[string]bool{}
	for _, r := range reasons {
		if !seen[r] {
			seen[r] = true
			unique = append(unique, r)
		}
	}
	if len(unique) == 1 {
		return unique[0]
	}
	return "[" + strings.Join(unique, ", ") + "]"
}

// setCondition writes one condition and reports whether its status changed. The time of
// the transition moves only then.
func setCondition(n *corev1.Node, kind corev1.NodeConditionType, status corev1.ConditionStatus, t text, now time.Time) (flipped bool) {
	// The API has whole seconds: less would look like a change when it comes back.
	at := metav1.NewTime(now.Truncate(time.Second))
	c := condition(n.Status.Conditions, kind)
	if c == nil {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind})
		c = &n.Status.Conditions[len(n.Status.Conditions)-1]
	}
	flipped = c.Status != status
	if flipped {
		c.LastTransitionTime = at
	}
	c.Status, c.Reason, c.Message, c.LastHeartbeatTime = status, t.reason, t.message, at
	return flipped
}

// condition returns the condition of a type, nil if there is none.
func condition(conditions []corev1.NodeCondition, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}

// statusEvent is the event that tells of a condition.
func statusEvent(node, reason string) Event {
	return Event{
		Type: corev1.EventTypeNormal, Reason: reason,
		Message: fmt.Sprintf("Node %s status is now: %s", node, reason),
	}
}
