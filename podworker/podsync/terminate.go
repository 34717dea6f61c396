package podsync

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// SyncTerminating stops a pod: its containers in parallel, sidecars after the others,
// each with what hooks and waiting have left of the grace period but at least two
// seconds, then its sandboxes. It returns nil
// only when no container runs. Called again with a shorter period while an earlier
// call was cut off, it asks the runtime again, which then stops sooner.
func (s *Syncer) SyncTerminating(ctx context.Context, pod *corev1.Pod, t podworker.Termination) error {
	r := s.record(pod)
	seen, err := s.observe(ctx, pod.UID, rough)
	if s.unsure(ctx, pod, r, err) {
		return err
	}
	if err := s.mayStop(pod, seen); err != nil {
		if r.status == nil {
			s.drop(pod.UID) // so that Forget knows that this agent never had it
		}
		return err
	}
	r.waits(never)
	r.anew(promised)
	r.hand = hand{busy: true} // how the pod is to have ended is not settled before it has
	defer r.done()
	r.end.Conditions = t.Conditions
	s.emit(pod, r, s.statusInput(pod, r, seen))
	left := t.Grace
	if left <= 0 {
		left = grace(pod)
	}
	if errs := s.killPod(ctx, pod, r, seen, left); len(errs) > 0 {
		return joined(errs)
	}
	if seen, err = s.observeStopped(ctx, pod.UID); err != nil {
		return err
	}
	if seen.Running() {
		return fmt.Errorf("stop pod %s/%s: the runtime shows running containers after it stopped them: %s", pod.Namespace, pod.Name, runningIDs(seen))
	}
	switch {
	case t.Reason != "":
		r.end = podstatus.End{Phase: t.Phase, Reason: t.Reason, Message: t.Message, Conditions: t.Conditions}
	case r.fate.Reason != "":
		r.end = r.fate
	}
	r.done()
	s.final(pod, r, seen)
	return nil
}

// SyncTerminated removes the volumes and the cgroup of a stopped pod. Its dead
// containers, their logs and termination messages stay until [Syncer.Forget], so
// that users can look at them and the next process knows that the pod has run.
func (s *Syncer) SyncTerminated(ctx context.Context, pod *corev1.Pod) error {
	r := s.record(pod)
	seen, err := s.observeStopped(ctx, pod.UID)
	if err != nil {
		return err
	}
	s.final(pod, r, seen)
	r.volumes = volumes{}
	if err := s.tearDown(ctx, pod.UID); err != nil {
		return fmt.Errorf("remove volumes of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if err := s.removeCgroup(ctx, pod.UID, podstatus.QOSClass(pod)); err != nil {
		return err
	}
	r.over = true
	return nil
}

func (s *Syncer) final(pod *corev1.Pod, r *record, seen *podstatus.Observed) {
	in := s.statusInput(pod, r, seen)
	in.Stopped = true
	s.emit(pod, r, in)
}

// mayStop refuses to stop what another agent made when all that is known of the pod
// is what the runtime says.
func (s *Syncer) mayStop(pod *corev1.Pod, seen *podstatus.Observed) error {
	if !isOrphan(pod) || s.cfg.TakeOver {
		return nil
	}
	for i := range seen.Sandboxes {
		if seen.Sandboxes[i].Owner != s.cfg.Node.Instance {
			return fmt.Errorf("stop pod %s/%s: sandbox %s %w", pod.Namespace, pod.Name, seen.Sandboxes[i].ID, ErrForeign)
		}
	}
	return nil
}

func runningIDs(seen *podstatus.Observed) []string {
	var ids []string
	for i := range seen.Containers {
		if st := seen.Containers[i].State; st == podstatus.StateRunning || st == podstatus.StateUnknown {
			ids = append(ids, seen.Containers[i].ID)
		}
	}
	return ids
}

// orphanGrace is the grace period of a pod of which only the runtime knows: nobody
// can say any more what it was to be.
const orphanGrace = time.Second
