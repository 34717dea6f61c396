package podworker

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Syncer does the work of the three phases of a pod. The Pool calls it with at
// most one call out per UID; calls for different UIDs run at the same time.
//
// Every method may be called again at any time, also by the next process after a
// crash, and must bring the pod closer to the same goal (idempotent). A method
// returns soon after its context is cancelled; it need not finish its work then.
//
// An error makes the Pool call the same method again after a back-off. An error
// that wraps one with the method
//
//	RetryAfter() time.Duration
//
// names that wait itself, see [Config.Backoff].
//
// The pod belongs to the Pool's user: a Syncer does not change it.
type Syncer interface {
	// Sync brings the containers of the pod to what its spec asks for. Its context
	// is cancelled when the pod has to terminate.
	Sync(ctx context.Context, pod *corev1.Pod) (Outcome, error)
	// SyncTerminating stops the pod. It returns nil only when every container of
	// the pod has stopped. Its context is cancelled when the grace period has
	// shrunk; it is then called again with the shorter one. The cause is
	// [ErrInterrupted], as for a Sync whose pod has to terminate.
	SyncTerminating(ctx context.Context, pod *corev1.Pod, t Termination) error
	// SyncTerminated cleans up what a stopped pod left behind.
	SyncTerminated(ctx context.Context, pod *corev1.Pod) error
}

// ErrInterrupted is the cause, see [context.Cause], of the cancelled context of a call
// that the Pool makes room for another one with: the pod has to terminate, or has less
// time to. That one comes as soon as this one has returned. A context that is cancelled
// since Run ends has another cause.
var ErrInterrupted = errors.New("podworker: another call for the pod is due")

// Outcome is what a Sync without error found. The zero value means: all well,
// look again at the usual resync.
type Outcome struct {
	// Terminal is true when the pod has reached its end by itself: no container
	// runs and none will be started. The pod goes on to terminate.
	Terminal bool
	// Again asks for the next Sync after this time; 0 leaves it to
	// [Config.Resync], which is also the upper bound.
	Again time.Duration
}

// MinGrace is the shortest grace period: the kubelet rounds 0 up to one second
// (https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination-forced).
const MinGrace = time.Second

// Termination says how a pod ends, and why. The zero value asks for an ordinary
// end with the pod's own grace period.
type Termination struct {
	// Grace is the time a container has between the request to stop and being
	// killed. As a request, 0 means the pod's own period
	// (metadata.deletionGracePeriodSeconds, else
	// spec.terminationGracePeriodSeconds, else 30 s), and anything else below
	// MinGrace counts as MinGrace. Given to a Syncer it is what is left of the
	// shortest period asked for, never below MinGrace.
	Grace time.Duration
	// Reason and Message are for the status of the pod, such as "Evicted". Empty:
	// the status is what the containers imply.
	Reason  string
	Message string
	// Phase is the phase the status gets with Reason; empty: as the containers
	// imply.
	Phase corev1.PodPhase
	// Conditions are added to the status, such as DisruptionTarget.
	Conditions []corev1.PodCondition
	// Evicted is true when the pod's local data has to go at once although the
	// pod still exists in its source.
	Evicted bool
}
