package podsync

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// Remains returns the UIDs of all pods of which something is left: a sandbox of
// this agent, a directory, or memory of a pod. Those nobody wants any more are for
// [Syncer.Forget].
func (s *Syncer) Remains(ctx context.Context) ([]types.UID, error) {
	found := map[types.UID]bool{}
	sandboxes, err := s.runtime.ListPodSandbox(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	for _, sb := range sandboxes {
		if uid := types.UID(sb.GetLabels()[podspec.LabelPodUID]); uid != "" && (s.cfg.TakeOver || Owner(sb) == s.cfg.Node.Instance) {
			found[uid] = true
		}
	}
	entries, err := os.ReadDir(filepath.Join(s.cfg.Node.Root, "pods"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read pod directories: %w", err)
	}
	for _, e := range entries {
		found[types.UID(e.Name())] = true
	}
	s.mu.Lock()
	for uid := range s.pods {
		found[uid] = true
	}
	s.mu.Unlock()
	maps.DeleteFunc(found, func(uid types.UID, _ bool) bool { return !isPathElement(uid) })
	return slices.Sorted(maps.Keys(found)), nil
}

// Forget removes everything that is left of a pod: sandboxes, containers, logs,
// directories, cgroup and memory. It fails with ErrRunning while a container of the pod
// runs, with ErrForeign for a pod that another agent made, and with ErrNotAcknowledged.
// What cannot be removed is left for the next call, and the error says why. Call it for
// pods that are wanted by no source and that no worker has in hand.
func (s *Syncer) Forget(ctx context.Context, uid types.UID) error {
	if !isPathElement(uid) {
		return fmt.Errorf("forget pod %q: not a UID", uid)
	}
	seen, err := s.observeStopped(ctx, uid)
	if err != nil {
		return fmt.Errorf("forget pod %s: %w", uid, err)
	}
	if err := s.mayForget(uid, seen); err != nil {
		return err
	}
	if seen.Running() {
		return fmt.Errorf("forget pod %s: %w: %s", uid, ErrRunning, runningIDs(seen))
	}
	if ack := s.cfg.Parts.Acknowledged; ack != nil && !ack(uid) {
		return fmt.Errorf("forget pod %s: %w", uid, ErrNotAcknowledged)
	}
	errs := []error{s.forgetRuntime(ctx, uid, seen)}
	if errs[0] == nil {
		errs = append(errs, s.removeLogDirs(uid), s.removePodDir(ctx, uid))
		errs = append(errs, s.removeCgroup(ctx, uid, corev1.PodQOSGuaranteed, corev1.PodQOSBurstable, corev1.PodQOSBestEffort))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("forget pod %s: %w", uid, err)
	}
	if s.cfg.Parts.Images != nil {
		s.cfg.Parts.Images.Forget(uid)
	}
	s.drop(uid)
	return nil
}

// Why a pod is not forgotten, or not stopped.
var (
	// ErrNotAcknowledged says that the last traces of a pod are kept because its final
	// status is not yet where it has to be, see [Parts]. Forget it later.
	ErrNotAcknowledged = errors.New("its final status was not acknowledged")
	// ErrRunning says that containers of the pod run. Terminate it first, as by
	// podworker.Pool.TerminateOrphan, and forget it then.
	ErrRunning = errors.New("containers still run")
	// ErrForeign says that another agent made the pod, so that this one leaves it alone
	// for good unless [Config.TakeOver] is set.
	ErrForeign = errors.New("belongs to another agent")
)

// mayForget refuses what another agent made, unless this one ran the pod.
func (s *Syncer) mayForget(uid types.UID, seen *podstatus.Observed) error {
	s.mu.Lock()
	_, ran := s.pods[uid]
	s.mu.Unlock()
	if ran || s.cfg.TakeOver {
		return nil
	}
	for i := range seen.Sandboxes {
		if seen.Sandboxes[i].Owner != s.cfg.Node.Instance {
			return fmt.Errorf("forget pod %s: sandbox %s %w", uid, seen.Sandboxes[i].ID, ErrForeign)
		}
	}
	return nil
}

func (s *Syncer) forgetRuntime(ctx context.Context, uid types.UID, seen *podstatus.Observed) error {
	var errs []error
	for i := range seen.Containers {
		c := &seen.Containers[i]
		if err := ignoreNotFound(s.runtime.RemoveContainer(ctx, c.ID)); err != nil {
			errs = append(errs, fmt.Errorf("remove container %s (%s): %w", c.Name, c.ID, err))
			continue
		}
		s.unlinkLogs(c.ID)
	}
	for i := range seen.Sandboxes {
		errs = append(errs, s.removeSandbox(ctx, seen.Sandboxes[i].ID))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	left, err := s.listSandboxes(ctx, map[string]string{podspec.LabelPodUID: string(uid)})
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("sandbox %s appeared meanwhile", left[0].GetId())
	}
	return err
}
