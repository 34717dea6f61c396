package images

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Hooks are told what happens in a Manager. Any of them may be nil. They are called by
// many goroutines and must not block.
type Hooks struct {
	// Event gets what users of a pod want to know.
	Event func(pod *corev1.Pod, e Event)
	// Pull is called whenever a pull gets to another phase.
	Pull func(p Pull)
	// Asked is called when a pod has asked for an image, before any pull.
	Asked func(a Asked)
}

// Event is something a user of the pod wants to know. Reasons and messages are the
// kubelet's.
type Event struct {
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type string
	// Reason is one word such as "Pulling".
	Reason string
	// Message is for people.
	Message string
	// Container is the container the event is about; empty for the volumes of a pod.
	Container string
}

// Phase is how far a pull is.
type Phase uint8

// The phases in their order.
const (
	// Queued means that the pull waits for a place.
	Queued Phase = iota + 1
	// Pulling means that the runtime is at work. CRI does not say how far it is.
	Pulling
	// Succeeded and Failed are the ends. A pull that nobody waits for any more fails with
	// context.Canceled.
	Succeeded
	Failed
)

// String returns the phase in lower case.
func (p Phase) String() string {
	switch p {
	case Queued:
		return "queued"
	case Pulling:
		return "pulling"
	case Succeeded:
		return "succeeded"
	case Failed:
		return "failed"
	default:
		return "unknown"
	}
}

// Pull describes a pull.
type Pull struct {
	// Image is the name of the image as the first pod that asked for it writes it.
	Image string
	Phase Phase
	// Asked is when the first pod asked; Began is when it got a place, and zero before.
	Asked time.Time
	Began time.Time
	// Ended, Size in bytes and Err are about the end, and zero before.
	Ended time.Time
	Size  uint64
	Err   error
}

// Asked describes what came of a request before any pull.
type Asked struct {
	Policy corev1.PullPolicy
	// Present says whether the image was on the node. It counts only if Looked is true:
	// policy Always does not look.
	Looked, Present bool
	// MustPull says that the pod gets the image by a pull only.
	MustPull bool
}

// The metrics that the kubelet keeps about images. The first is a histogram of the
// durations of pulls by size of the image; the second counts requests, with the labels
// pull_policy, present_locally and pull_required.
const (
	MetricPullDuration = "kubelet_image_pull_duration_seconds"
	MetricRequests     = "kubelet_image_manager_ensure_image_requests_total"
)
