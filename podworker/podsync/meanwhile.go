package podsync

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// lookEvery is how often the status of a pod is computed while a call takes its time:
// containers end, and their readiness changes, also while others are stopped or an
// image is pulled. What changes is published within a second.
const lookEvery = 970 * time.Millisecond

// meanwhile does work that may take long and publishes the status of the pod each
// second until it is done. The work must not touch what belongs to the caller: of the
// record, all but its progress. After each look the caller does what else is due.
func (s *Syncer) meanwhile(ctx context.Context, pod *corev1.Pod, r *record, work, due func()) {
	done := make(chan error, 1)
	go func() {
		done <- guarded(func() error {
			work()
			return nil
		})
	}()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case bug := <-done:
			if bug != nil {
				panic(bug) // where whoever called can report it
			}
			return
		case <-tick.C:
			s.look(ctx, pod, r)
			due()
		}
	}
}

// look publishes the status of a pod as it is now. What cannot be seen now is seen
// later.
func (s *Syncer) look(ctx context.Context, pod *corev1.Pod, r *record) {
	ctx, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	seen, err := s.observe(ctx, pod.UID, exact)
	if err != nil {
		return
	}
	r.sees(seen)
	s.emit(pod, r, s.statusInput(pod, r, seen))
}
