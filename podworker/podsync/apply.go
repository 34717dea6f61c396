package podsync

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// apply does what a plan says and returns everything that failed. Without a sandbox
// nothing starts; otherwise one failure does not keep the rest from being done.
func (s *Syncer) apply(ctx context.Context, pod *corev1.Pod, r *record, seen *podstatus.Observed, a *Actions) []error {
	r.take(pod, seen, a)
	defer r.done()
	if a.NewSandbox {
		if err := s.mayRunSandbox(ctx, pod, r); err != nil {
			return []error{err}
		}
	}
	if a.KillPod {
		if a.NewSandbox && len(seen.Sandboxes) > 0 {
			s.normal(pod, "", "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
		}
		if errs := s.killPod(ctx, pod, r, seen, grace(pod)); len(errs) > 0 {
			return errs
		}
	}
	st := stopper{syncer: s, pod: pod, record: r, seen: seen, left: func(stop *Stop) time.Duration { return stopGrace(pod, stop) }}
	stuck, errs := st.stop(ctx, a.Stop)
	if a.RestartAll && len(errs) > 0 {
		return errs // those that asked for it go last
	}
	r.again = nil
	errs = append(errs, s.remove(ctx, pod, r, a)...)
	errs = append(errs, s.resize(ctx, pod, r, a)...)
	if starts := startable(a.Start, stuck); a.NewSandbox || len(starts) > 0 {
		if err := s.setUp(ctx, pod, r); err != nil {
			return append(errs, err)
		}
		b := batch{syncer: s, pod: pod, record: r, sandboxID: a.SandboxID, seen: seen}
		errs = append(errs, b.carryOut(ctx, a, starts)...)
	}
	return errs
}

// take notes that a plan is being carried out.
func (h *hand) take(pod *corev1.Pod, seen *podstatus.Observed, a *Actions) {
	h.busy = a.KillPod || len(a.Stop) > 0 || slices.ContainsFunc(a.Start, func(st Start) bool { return st.Kind != Ephemeral })
	h.again = map[string]bool{}
	for i := range a.Start {
		h.again[a.Start[i].Name] = true
	}
	for i := range seen.Containers {
		if name := seen.Containers[i].Name; a.NewSandbox && kindOf(pod, name) != Ephemeral {
			h.again[name] = true // what runs in the old one is not done, when that may be
		}
	}
}

// done notes that all of it was tried.
func (h *hand) done() { h.busy, h.again = false, nil }

// carryOut makes the sandbox of a plan, if it has one, and starts containers, when it is
// the turn of the pod.
func (b *batch) carryOut(ctx context.Context, a *Actions, starts []Start) []error {
	s := b.syncer
	leave, err := s.starts.enter(ctx, b.pod, &b.record.turn)
	if err != nil {
		return []error{err}
	}
	defer leave()
	if a.NewSandbox {
		if b.sandboxID, err = s.runSandbox(ctx, b.pod, b.record, a.Attempt); err != nil {
			return []error{err}
		}
		if b.seen, err = s.sandboxRuns(ctx, b.pod, b.record); err != nil {
			return []error{err}
		}
	}
	if len(starts) == 0 {
		return nil
	}
	return b.startTogether(ctx, starts)
}

// startable leaves out the containers of which an earlier run could not be stopped:
// two of one container would do the same work.
func startable(starts []Start, stuck map[string]bool) []Start {
	return slices.DeleteFunc(slices.Clone(starts), func(st Start) bool { return stuck[st.Name] })
}

// remove removes the dead containers and old sandboxes of a plan.
func (s *Syncer) remove(ctx context.Context, pod *corev1.Pod, r *record, a *Actions) []error {
	var errs []error
	for _, d := range a.RemoveContainers {
		var err error
		if d.Backoff > 0 {
			err = s.keepStep(pod, r, d.Name, d.Backoff)
		}
		if err == nil {
			err = s.removeContainer(ctx, s.cfg.Node.LogDir(pod), d)
		}
		if err != nil {
			errs = append(errs, err)
			if a.RestartAll {
				return errs // those that asked for it go last
			}
		}
	}
	for _, id := range a.RemoveSandboxes {
		if err := s.removeSandbox(ctx, id); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// removeContainer removes a dead container and then the logs of its run.
func (s *Syncer) removeContainer(ctx context.Context, logDir string, d Dead) error {
	if err := ignoreNotFound(s.runtime.RemoveContainer(ctx, d.ID)); err != nil {
		return fmt.Errorf("remove container %s (%s): %w", d.Name, d.ID, err)
	}
	s.unlinkLogs(d.ID)
	if d.KeepLogs || !isPathElement(d.Name) {
		return nil // or a label of the runtime, which nobody checked
	}
	return s.removeLogs(filepath.Join(logDir, d.Name), d.Attempt)
}
