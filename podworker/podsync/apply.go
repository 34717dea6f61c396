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
	stuck, errs := s.stopContainers(ctx, pod, r, a.Stop, func(stop *Stop) time.Duration { return stopGrace(pod, stop) })
	errs = append(errs, s.remove(ctx, pod, a)...)
	id := a.SandboxID
	if a.NewSandbox {
		var err error
		if id, err = s.runSandbox(ctx, pod, a.Attempt); err != nil {
			return append(errs, err)
		}
		if seen, err = s.sandboxRuns(ctx, pod, r); err != nil {
			return append(errs, err)
		}
	}
	starts := startable(a.Start, stuck)
	if len(starts) == 0 {
		return errs
	}
	b := batch{syncer: s, pod: pod, record: r, sandboxID: id}
	return append(errs, b.startAll(ctx, seen, starts)...)
}

// startable leaves out the containers of which an earlier run could not be stopped:
// two of one container would do the same work.
func startable(starts []Start, stuck map[string]bool) []Start {
	return slices.DeleteFunc(slices.Clone(starts), func(st Start) bool { return stuck[st.Name] })
}

// remove removes the dead containers and old sandboxes of a plan.
func (s *Syncer) remove(ctx context.Context, pod *corev1.Pod, a *Actions) []error {
	var errs []error
	for _, d := range a.RemoveContainers {
		if err := s.removeContainer(ctx, s.cfg.Node.LogDir(pod), d); err != nil {
			errs = append(errs, err)
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
	if !isPathElement(d.Name) {
		return nil // a label of the runtime, which nobody checked
	}
	return removeLogs(filepath.Join(logDir, d.Name), d.Attempt)
}
