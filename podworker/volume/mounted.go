package volume

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Mounted is a volume that is ready for containers.
type Mounted struct {
	// Path is where the volume is on the host: a directory, or what a hostPath names.
	Path string
	// Block: Path is a block device, for the volumeDevices of containers.
	Block bool
	// ReadOnly: containers may only read, whatever their volumeMounts say.
	ReadOnly bool
	// Relabel: the volume is the pod's own, so that on a node with SELinux the runtime is
	// to give it the label of the container.
	Relabel bool
	// Group is one that processes of the pod have to be of to use the volume, beside those
	// that the pod asks for; nil: none.
	Group *int64
	// RefreshAt is when the volume has to be set up again although nothing has changed,
	// as for a token that expires; zero: never. Half a second passes at least.
	RefreshAt time.Time
}

// Event is something a user of the pod wants to know. Reasons and messages are the
// kubelet's.
type Event struct {
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type string
	// Reason is one word such as "FailedMount".
	Reason string
	// Message is for people.
	Message string
}

func warning(reason, message string) Event {
	return Event{Type: corev1.EventTypeWarning, Reason: reason, Message: message}
}
