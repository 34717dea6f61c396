package podworker

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An event is what happens to the machine, an effect what it asks for in return.
type (
	event  any
	effect any
)

// The events.
type (
	// updated is the newest version of a wanted pod.
	updated struct{ pod *corev1.Pod }
	// ended asks a known pod to terminate.
	ended struct {
		uid types.UID
		t   Termination
	}
	// vanished says that a pod is not wanted any more.
	vanished struct{ uid types.UID }
	// orphaned is a pod that no source names and that was found in the runtime.
	orphaned struct {
		pod *corev1.Pod
		t   Termination
	}
	// woken says that something about the pod may have changed.
	woken struct{ uid types.UID }
	// retained is the whole set of wanted pods.
	retained struct{ uids map[types.UID]struct{} }
	// returned is the end of a call.
	returned struct {
		uid     types.UID
		outcome Outcome
		err     error
	}
	// ticked says only that time has passed.
	ticked struct{}
)

// The effects.
type (
	// call asks for one call of the Syncer: the method of the phase.
	call struct {
		uid   types.UID
		phase Phase
		pod   *corev1.Pod
		t     Termination
	}
	// cancel asks for the end of the context of the call that is out.
	cancel struct{ uid types.UID }
	// moved tells of a change of phase.
	moved struct {
		pod      *corev1.Pod
		from, to Phase
	}
	// refused tells of a change of phase that is not legal and was not made: a
	// bug in the machine.
	refused moved
	// failed tells of a call that returned an error.
	failed struct {
		pod   *corev1.Pod
		phase Phase
		err   error
		retry time.Duration
	}
)

// String shows the call as transcripts do.
func (c call) String() string {
	s := fmt.Sprintf("call %s %s", c.uid, method(c.phase))
	if c.phase == Terminating {
		s += " grace=" + c.t.Grace.String()
	}
	return s
}

// String shows the effect as transcripts do.
func (c cancel) String() string { return fmt.Sprintf("cancel %s", c.uid) }

// String shows the effect as transcripts do.
func (m moved) String() string { return fmt.Sprintf("%s %s → %s", m.pod.UID, m.from, m.to) }

// String shows the effect as transcripts do.
func (r refused) String() string {
	return fmt.Sprintf("refused %s %s → %s", r.pod.UID, r.from, r.to)
}

// String shows the effect as transcripts do.
func (f failed) String() string {
	return fmt.Sprintf("failed %s %s: %v, retry in %s", f.pod.UID, method(f.phase), f.err, f.retry)
}

// method is the name of the Syncer's method for phase p.
func method(p Phase) string {
	switch p {
	case Syncing:
		return "Sync"
	case Terminating:
		return "SyncTerminating"
	case Terminated:
		return "SyncTerminated"
	}
	return p.String()
}
