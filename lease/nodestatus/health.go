package nodestatus

import (
	"fmt"
	"time"
)

const (
	// RuntimeThreshold is how long the container runtime may be silent before it counts
	// as down, as in the kubelet.
	RuntimeThreshold = 30 * time.Second
	// ListThreshold is how long the pods on it may be unlisted before the node is not
	// ready, as in the kubelet.
	ListThreshold = 3 * time.Minute
)

// RuntimeCondition is what a container runtime says of itself: one of the conditions
// of the CRI call Status.
type RuntimeCondition struct {
	// Type is RuntimeReady or NetworkReady.
	Type            string
	Status          bool
	Reason, Message string
}

// String returns the condition in the kubelet's words.
func (c RuntimeCondition) String() string {
	return fmt.Sprintf("%s=%t reason:%s message:%s", c.Type, c.Status, c.Reason, c.Message)
}

// Health is what a node knows of its own parts. It is plain data: who watches the parts
// fills it in. Its zero value is a node that knows nothing yet, and is not ready.
type Health struct {
	// RuntimeReady is when the container runtime last answered that it is ready.
	RuntimeReady time.Time
	// Conditions is its last answer, nil if there was none.
	Conditions []RuntimeCondition
	// Listed is when the pods on the runtime were last listed, the kubelet's PLEG.
	Listed time.Time
	// Faults are further reasons, in words.
	Faults []string
	// GoingDown says that the machine is going down.
	GoingDown bool
}

// NotReady returns why a node is not ready, in the kubelet's words; nothing if it is.
func (h Health) NotReady(now time.Time) []string {
	var reasons []string
	switch {
	case h.RuntimeReady.IsZero():
		reasons = append(reasons, "container runtime status check may not have completed yet")
	case now.Sub(h.RuntimeReady) >= RuntimeThreshold:
		reasons = append(reasons, "container runtime is down")
	}
	switch {
	case h.Listed.IsZero():
		reasons = append(reasons, "PLEG is not healthy: pleg has yet to be successful")
	case now.Sub(h.Listed) > ListThreshold:
		reasons = append(reasons, fmt.Sprintf("PLEG is not healthy: pleg was last seen active %v ago; threshold is %v",
			now.Sub(h.Listed).Round(time.Second), ListThreshold))
	}
	if h.Conditions != nil {
		reasons = append(reasons, h.conditionFault("RuntimeReady", "container runtime not ready")...)
		reasons = append(reasons, h.conditionFault("NetworkReady", "container runtime network not ready")...)
	} else {
		reasons = append(reasons, "network state unknown")
	}
	reasons = append(reasons, h.Faults...)
	if h.GoingDown {
		reasons = append(reasons, "node is shutting down")
	}
	return reasons
}

// conditionFault returns what is wrong with one condition of the runtime.
func (h Health) conditionFault(kind, what string) []string {
	for _, c := range h.Conditions {
		if c.Type != kind {
			continue
		}
		if c.Status {
			return nil
		}
		return []string{what + ": " + c.String()}
	}
	return []string{what + ": the runtime does not tell " + kind}
}
