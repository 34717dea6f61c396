package podsync

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// Listed is what a runtime lists of one pod, at a time when nothing had been heard of
// it that is not in the lists.
type Listed struct {
	// Taken is when the runtime was asked.
	Taken      time.Time
	Sandboxes  []*runtimeapi.PodSandbox
	Containers []*runtimeapi.Container
}

// observedFor is how long an observation may be used again: lists do not tell what
// somebody else may change behind the agent's back, such as a container's resources.
const observedFor = 10 * time.Minute

// looked is the last observation of a pod that was followed by no action.
type looked struct {
	pod  *corev1.Pod
	seen *podstatus.Observed
	at   time.Time
}

// current observes a pod. It asks the runtime nothing where all of this holds: the pod is
// the one of the last observation, the runtime was listed since and shows the same, and
// there is nothing to do. What is done is thus always decided on what the runtime says
// now.
func (s *Syncer) current(ctx context.Context, pod *corev1.Pod, r *record) (*podstatus.Observed, error) {
	if s.unchanged(pod, &r.looked) {
		if actions := s.plan(pod, r, r.looked.seen); actions.Empty() {
			return r.looked.seen, nil
		}
	}
	r.looked = looked{}
	seen, err := s.observe(ctx, pod.UID, exact)
	if err == nil {
		r.looked = looked{pod: pod, seen: seen, at: time.Now()}
	}
	return seen, err
}

// unchanged reports whether the last observation still holds as far as lists tell.
func (s *Syncer) unchanged(pod *corev1.Pod, last *looked) bool {
	if s.cfg.Parts.Listed == nil || last.seen == nil || last.pod != pod || time.Since(last.at) > observedFor {
		return false
	}
	now, ok := s.cfg.Parts.Listed(pod.UID)
	return ok && now.Taken.After(last.at) && now.shows(last.seen)
}

// shows reports whether the lists have just what was observed, and all of it is in a
// state that only an event ends.
func (l *Listed) shows(seen *podstatus.Observed) bool {
	if len(l.Sandboxes) != len(seen.Sandboxes) || len(l.Containers) != len(seen.Containers) {
		return false
	}
	ready, states := map[string]bool{}, map[string]podstatus.State{}
	for _, sb := range seen.Sandboxes {
		ready[sb.ID] = sb.Ready
	}
	for i := range seen.Containers {
		states[seen.Containers[i].ID] = seen.Containers[i].State
	}
	for _, sb := range l.Sandboxes {
		was, ok := ready[sb.GetId()]
		if !ok || was != (sb.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY) {
			return false
		}
	}
	for _, c := range l.Containers {
		was, ok := states[c.GetId()]
		if state := stateFrom(c.GetState()); !ok || was != state || !settled(state) {
			return false
		}
	}
	return true
}

func settled(state podstatus.State) bool {
	return state == podstatus.StateRunning || state == podstatus.StateExited
}
