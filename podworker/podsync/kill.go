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
	if stop.AtOnce {
		return 0
	}
	if !stop.Failed || pod.DeletionGracePeriodSeconds != nil {
		return grace(pod)
	}
	c := container(pod, stop.Name)
	if c == nil {
		return grace(pod)
	}
	probe := probeOf(c, stop.Probe)
	if probe == nil || probe.TerminationGracePeriodSeconds == nil {
		return grace(pod)
	}
	return period(*probe.TerminationGracePeriodSeconds)
}

// stopper stops containers of one pod, all at the same time: the hook before the end
// of each and then the container share its grace period.
type stopper struct {
	syncer *Syncer
	pod    *corev1.Pod
	record *record
	seen   *podstatus.Observed
	// left returns how much time a container has.
	left func(*Stop) time.Duration
	// order has those that wait for others; nil: none does.
	order *order
}

// stop stops containers and returns the names of those that may still run, and what
// failed. Meanwhile the status of the pod is published.
func (st *stopper) stop(ctx context.Context, stops []Stop) (map[string]bool, []error) {
	stuck := map[string]bool{}
	if len(stops) == 0 {
		return stuck, nil
	}
	errs := make([]error, len(stops))
	st.syncer.meanwhile(ctx, st.pod, st.record, func() {
		var all sync.WaitGroup
		for i := range stops {
			all.Go(func() { errs[i] = st.one(ctx, &stops[i]) })
		}
		all.Wait()
	}, func() {})
	var failed []error
	for i, err := range errs {
		if err != nil {
			stuck[stops[i].Name] = true
			failed = append(failed, fmt.Errorf("stop container %s of pod %s/%s: %w", stops[i].Name, st.pod.Namespace, st.pod.Name, err))
		}
	}
	return stuck, failed
}

// one stops one container and tells those that wait for its end.
func (st *stopper) one(ctx context.Context, stop *Stop) error {
	err := guarded(func() error { return st.end(ctx, stop) })
	st.order.done(stop, err)
	return err
}

func (st *stopper) end(ctx context.Context, stop *Stop) error {
	if st.record.once(toldKilling, stop.ID) {
		st.syncer.normal(st.pod, stop.Name, "Killing", stop.Message)
	}
	left := st.left(stop)
	until := time.Now().Add(left)
	if left > 0 {
		defer st.preStop(ctx, stop, left)()
	}
	// One whose hook took all of the time waits for nobody, as in the kubelet.
	if left = time.Until(until); left > 0 {
		if err := st.order.wait(ctx, stop.Name, left); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	st.promise(stop)
	seconds := int64(max(time.Until(until), minStop).Round(time.Second) / time.Second)
	return ignoreNotFound(st.syncer.runtime.StopContainer(ctx, stop.ID, seconds))
}

// promise remembers of a container that is stopped for a failed probe, or to make way for
// its next run, that it will be started again. If it ends with 0, nothing else tells so.
func (st *stopper) promise(stop *Stop) {
	if !stop.Failed && !st.record.again[stop.Name] {
		return
	}
	c := container(st.pod, stop.Name)
	if c == nil || st.pod.DeletionTimestamp != nil || !podstatus.RestartsAfterKill(st.pod, c) {
		return
	}
	st.record.once(promised, stop.ID)
	if !podstatus.RestartsContainer(st.pod, c, 0) {
		st.record.wait(stop.Name, podstatus.Waiting{Reason: reasonCreating})
	}
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
	st := stopper{syncer: s, pod: pod, record: r, seen: seen, left: func(*Stop) time.Duration { return left }, order: newOrder(pod, stops)}
	_, errs := st.stop(ctx, stops)
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
