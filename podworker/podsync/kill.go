package podsync

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// minStop is the shortest time a container has between the request to stop and
// being killed: the kubelet never passes less to a runtime.
const minStop = 2 * time.Second

// defaultGrace is the API's default of terminationGracePeriodSeconds.
const defaultGrace = 30 * time.Second

// grace returns the pod's own grace period.
func grace(pod *corev1.Pod) time.Duration {
	switch {
	case pod.DeletionGracePeriodSeconds != nil:
		return period(*pod.DeletionGracePeriodSeconds)
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		return period(*pod.Spec.TerminationGracePeriodSeconds)
	}
	return defaultGrace
}

// period returns a number of seconds as a duration. The API allows for more than a
// duration holds; what is more than 68 years is 68 years.
func period(seconds int64) time.Duration {
	return time.Duration(max(0, min(seconds, math.MaxInt32))) * time.Second
}

// stopGrace returns the grace of one container: a probe that is the reason may have
// its own.
func stopGrace(pod *corev1.Pod, stop *Stop) time.Duration {
	if !stop.Failed || pod.DeletionGracePeriodSeconds != nil {
		return grace(pod)
	}
	c := container(pod, stop.Name)
	if c == nil {
		return grace(pod)
	}
	probe := c.LivenessProbe
	if stop.Probe == podstatus.Startup {
		probe = c.StartupProbe
	}
	if probe == nil || probe.TerminationGracePeriodSeconds == nil {
		return grace(pod)
	}
	return period(*probe.TerminationGracePeriodSeconds)
}

// stopContainers stops containers in parallel and returns the names of those that
// may still run, and what failed.
func (s *Syncer) stopContainers(ctx context.Context, pod *corev1.Pod, r *record, stops []Stop, left func(*Stop) time.Duration) (map[string]bool, []error) {
	errs := make([]error, len(stops))
	var all sync.WaitGroup
	for i := range stops {
		stop := &stops[i]
		if r.once(toldKilling, stop.ID) {
			s.normal(pod, stop.Name, "Killing", stop.Message)
		}
		all.Go(func() {
			seconds := int64(max(left(stop), minStop).Round(time.Second) / time.Second)
			err := ignoreNotFound(s.runtime.StopContainer(ctx, stop.ID, seconds))
			if err != nil {
				errs[i] = fmt.Errorf("stop container %s of pod %s/%s: %w", stop.Name, pod.Namespace, pod.Name, err)
			}
		})
	}
	all.Wait()
	stuck, failed := map[string]bool{}, []error(nil)
	for i, err := range errs {
		if err != nil {
			stuck[stops[i].Name] = true
			failed = append(failed, err)
		}
	}
	return stuck, failed
}

// killPod stops every container of the pod, then every sandbox. Stopping a sandbox
// kills what still runs in it, so while a container could not be stopped that waits
// until the grace period is over.
func (s *Syncer) killPod(ctx context.Context, pod *corev1.Pod, r *record, seen *podstatus.Observed, left time.Duration) []error {
	if r.stopping.IsZero() {
		r.stopping = time.Now()
	}
	var stops []Stop
	for i := range seen.Containers {
		c := &seen.Containers[i]
		if c.State == podstatus.StateRunning || c.State == podstatus.StateUnknown {
			stops = append(stops, Stop{Name: c.Name, ID: c.ID, Message: "Stopping container " + c.Name})
		}
	}
	_, errs := s.stopContainers(ctx, pod, r, stops, func(*Stop) time.Duration { return left })
	if len(errs) == 0 || time.Since(r.stopping) > max(left, minStop) {
		errs = append(errs, s.stopSandboxes(ctx, pod, seen)...)
	}
	if err := ctx.Err(); err != nil {
		return []error{fmt.Errorf("stop pod %s/%s: %w", pod.Namespace, pod.Name, err)}
	}
	if len(errs) > 0 {
		s.warning(pod, "", "FailedKillPod", fmt.Sprintf("error killing pod: %v", joined(errs)))
		return errs
	}
	r.stopping = time.Time{}
	return nil
}

func (s *Syncer) stopSandboxes(ctx context.Context, pod *corev1.Pod, seen *podstatus.Observed) []error {
	var errs []error
	for i := range seen.Sandboxes {
		if ctx.Err() != nil {
			break
		}
		id := seen.Sandboxes[i].ID
		if err := ignoreNotFound(s.runtime.StopPodSandbox(ctx, id)); err != nil {
			errs = append(errs, fmt.Errorf("stop sandbox %s of pod %s/%s: %w", id, pod.Namespace, pod.Name, err))
		}
	}
	return errs
}
