package podsync

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

// Plan returns what the next Sync of a pod would do first, by what the runtime shows of
// it now. Nothing is done and nobody is told. The error says why the pod would be
// refused, or that the runtime does not answer.
func (s *Syncer) Plan(ctx context.Context, pod *corev1.Pod) (Actions, error) {
	if err := podspec.Refusal(podspec.Check(pod, podspec.Options{Can: s.cfg.can()})); err != nil {
		return Actions{}, err
	}
	seen, err := s.observe(ctx, pod.UID, exact)
	if err != nil {
		return Actions{}, err
	}
	return Plan(pod, seen, Inputs{
		Now: time.Now(), Prober: s.cfg.Prober, Started: startedBefore(&pod.Status), MaxBackoff: s.cfg.MaxBackoff, KeepDead: s.cfg.Limits.DeadPerContainer, DeadAge: s.cfg.Limits.DeadAge,
	}), nil
}
