package podsync

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// The crash back-off of containers: at once after the first end, then 10 s,
// doubling to 5 min; a run of over 10 min makes the next end count as the first
// (https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-policy).
const (
	firstBackoff = 10 * time.Second
	maxBackoff   = 5 * time.Minute
	healthyRun   = 10 * time.Minute
)

// backoff doubles a wait from first to limit.
type backoff struct {
	limit time.Duration
}

// after returns the step that follows step.
func (b backoff) after(step time.Duration) time.Duration {
	if step <= 0 {
		return min(firstBackoff, b.limit)
	}
	return min(2*step, b.limit)
}

// step returns the wait that applies to the end of a run. It is recorded with the
// container. Where whoever made it left no record, it is guessed from the restart
// count, as if every run had been short.
func (b backoff) step(run *podstatus.Instance) time.Duration {
	if run.Step >= 0 {
		return min(run.Step, b.limit)
	}
	step := time.Duration(0)
	for range run.RestartCount {
		if step == b.limit {
			break
		}
		step = b.after(step)
	}
	return step
}

// next returns how long to wait after the end of a run before the next one may
// start, and the step to record with that next one.
func (b backoff) next(run *podstatus.Instance) (wait, step time.Duration) {
	if b.wasHealthy(run) {
		return 0, b.after(0)
	}
	step = b.step(run)
	return step, b.after(step)
}

func (b backoff) wasHealthy(run *podstatus.Instance) bool {
	began := run.StartedAt
	if began.IsZero() {
		began = run.CreatedAt
	}
	return run.FinishedAt.Sub(began) > healthyRun
}

// crashLoop is what the status of a container shows that waits for its next run.
func crashLoop(pod *corev1.Pod, c *corev1.Container, wait time.Duration) podstatus.Waiting {
	return podstatus.Waiting{
		Reason:  reasonCrashLoop,
		Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)", wait, c.Name, pod.Name, pod.Namespace, pod.UID),
	}
}
