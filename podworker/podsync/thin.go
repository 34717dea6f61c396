package podsync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

// Thin removes dead containers while the node keeps more than [Limits] allow for all pods
// together. First each container of each pod keeps fewer runs, as many as all others and
// one at least. If that is not enough, the oldest go of the pods that have ended, to the
// last: what they were is known to whoever acknowledged it, see [Parts]. A pod that lives
// keeps the newest run of each container, by which its restarts are counted.
//
// containers is what the runtime lists. ended reports whether a pod has ended for good,
// has no worker and is known to have ended elsewhere, so that it never runs again. Thin
// returns the pods that keep too much and have not ended; their next Sync removes it.
func (s *Syncer) Thin(ctx context.Context, containers []*runtimeapi.Container, ended func(types.UID) bool) ([]types.UID, error) {
	limits := s.cfg.Limits
	if limits.Dead == 0 {
		return nil, nil
	}
	all := s.corpses(containers, time.Now().Add(-limits.DeadAge), ended)
	keep, surplus := thin(all, max(limits.Dead, 0), max(limits.DeadPerContainer, 1))
	s.keepDead.Store(int64(keep))
	crowded := map[types.UID]bool{}
	var errs []error
	for _, c := range surplus {
		if !c.ended {
			crowded[c.pod.UID] = true
			continue
		}
		errs = append(errs, s.removeContainer(ctx, s.cfg.Node.LogDir(&c.pod), c.Dead))
	}
	return slices.Sorted(maps.Keys(crowded)), errors.Join(errs...)
}

// RemoveDead removes at once, as when the disk is full, every dead container that nobody
// needs: all of pods that have ended, see [Syncer.Thin], and all but the newest of each
// container of others.
func (s *Syncer) RemoveDead(ctx context.Context, ended func(types.UID) bool) error {
	list, err := s.runtime.ListContainers(ctx, nil)
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	sandboxes, err := s.runtime.ListPodSandbox(ctx, nil)
	if err != nil {
		return fmt.Errorf("list sandboxes: %w", err)
	}
	own := map[string]bool{}
	for _, sb := range sandboxes {
		own[sb.GetId()] = s.cfg.TakeOver || Owner(sb) == s.cfg.Node.Instance
	}
	list = slices.DeleteFunc(slices.Clone(list), func(c *runtimeapi.Container) bool { return !own[c.GetPodSandboxId()] })
	_, surplus := thin(s.corpses(list, time.Now(), ended), 0, 1)
	var errs []error
	for _, c := range surplus {
		errs = append(errs, s.removeContainer(ctx, s.cfg.Node.LogDir(&c.pod), c.Dead))
	}
	return errors.Join(errs...)
}

// corpse is a dead container on the node.
type corpse struct {
	Dead
	pod     corev1.Pod
	created int64
	ended   bool
	// rank counts the newer dead runs of the same container.
	rank int
}

// corpses returns the dead containers that were made before a time, the newest first, and
// whether their pods have ended and everybody knows it.
func (s *Syncer) corpses(containers []*runtimeapi.Container, before time.Time, ended func(types.UID) bool) []corpse {
	all := corpses(containers, before)
	for i := range all {
		uid := all[i].pod.UID
		all[i].ended = ended(uid) && (s.cfg.Parts.Acknowledged == nil || s.cfg.Parts.Acknowledged(uid))
	}
	return all
}

// corpses returns the dead containers of pods that were made before a time, the newest
// first.
func corpses(containers []*runtimeapi.Container, before time.Time) []corpse {
	var all []corpse
	for _, c := range containers {
		labels := c.GetLabels()
		uid := types.UID(labels[podspec.LabelPodUID])
		if c.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED || uid == "" || c.GetCreatedAt() > before.UnixNano() {
			continue
		}
		dead := corpse{created: c.GetCreatedAt(), Dead: Dead{
			Name: labels[podspec.LabelContainerName], ID: c.GetId(), Attempt: c.GetMetadata().GetAttempt(),
		}}
		dead.pod.UID, dead.pod.Namespace, dead.pod.Name = uid, labels[podspec.LabelPodNamespace], labels[podspec.LabelPodName]
		all = append(all, dead)
	}
	slices.SortStableFunc(all, func(a, b corpse) int { return cmp.Compare(b.created, a.created) })
	return all
}

// thin decides how many runs each container keeps so that at most limit are kept in all,
// and which ones go. The corpses are the newest first; keep is the most that one container
// keeps anyway.
func thin(all []corpse, limit, keep int) (int, []corpse) {
	kept := rank(all, keep)
	if len(kept) > limit {
		units := 0
		for i := range kept {
			if kept[i].rank == 0 {
				units++
			}
		}
		keep = max(1, min(keep, limit/max(units, 1)))
		kept = rank(all, keep)
	}
	surplus := slices.DeleteFunc(slices.Clone(all), func(c corpse) bool { return c.rank < keep })
	over := len(kept) - limit
	for _, c := range slices.Backward(kept) {
		if over <= 0 {
			break
		}
		if c.ended {
			surplus = append(surplus, c)
			over--
		}
	}
	return keep, surplus
}

// rank counts for each corpse the newer ones of the same container, which the number of the
// run tells even if the clock was set back, and returns those with fewer than keep.
func rank(all []corpse, keep int) []corpse {
	type unit struct {
		uid  types.UID
		name string
	}
	runs := map[unit][]*corpse{}
	for i := range all {
		u := unit{all[i].pod.UID, all[i].Name}
		runs[u] = append(runs[u], &all[i])
	}
	for _, list := range runs {
		slices.SortStableFunc(list, func(a, b *corpse) int { return cmp.Compare(b.Attempt, a.Attempt) })
		for n, c := range list {
			c.rank = n
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(c corpse) bool { return c.rank >= keep })
}
