//go:build linux

package cgroups

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// resourcePID is how a KubeletConfiguration names process IDs in what it reserves; the
// API has no name for them.
const resourcePID corev1.ResourceName = "pid"

// EnforcePods holds all pods together to what they may have: memory, process IDs ("pid")
// and huge pages are limits, cpu is a weight beside what else runs on the machine.
// Resources that are not in the list are left as they are. It is an error, and the
// former limit stays, when the pods use more memory than that: evict some, and try again.
func (t *Tree) EnforcePods(ctx context.Context, most corev1.ResourceList) error {
	return t.enforce(ctx, t.names.group(corev1.PodQOSGuaranteed), enforced(most))
}

// EnforceReserved holds a group that the agent does not own, such as the one of the
// system's services, to what is reserved for it. The group must be there: the error is
// an [fs.ErrNotExist] otherwise. With compressible, cpu alone is set. Memory that is
// reserved is also protected, which matters with cgroup v2 only.
func (t *Tree) EnforceReserved(ctx context.Context, group string, reserved corev1.ResourceList, compressible bool) error {
	limits := enforced(reserved)
	switch {
	case compressible:
		limits = Limits{CPUShares: limits.CPUShares}
	case limits.Memory != 0:
		limits.Unified = map[string]string{memoryMin: decimal(limits.Memory)}
	}
	if slices.Contains(strings.Split(group, "/"), "..") {
		return fmt.Errorf("enforce what is reserved in control group %q: want a path without \"..\"", group)
	}
	group = t.names.others(group)
	err := t.each(ctx, func(m *Mount) error {
		if !exists(m.dir(group)) {
			return fmt.Errorf("%s: %w", m.dir(group), fs.ErrNotExist)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("enforce what is reserved in control group %s, which has to be made by whoever owns it: %w", group, err)
	}
	return t.enforce(ctx, group, limits)
}

func (t *Tree) enforce(ctx context.Context, group string, limits Limits) error {
	if err := t.ensure(ctx, group, limits); err != nil {
		return fmt.Errorf("enforce limits of control group %s: %w", group, err)
	}
	return nil
}

// enforced turns amounts into limits, those that are not there into zero values.
func enforced(list corev1.ResourceList) Limits {
	var l Limits
	if q, ok := list[corev1.ResourceCPU]; ok {
		l.CPUShares = shares(q.MilliValue())
	}
	if q, ok := list[corev1.ResourceMemory]; ok {
		l.Memory = q.Value()
	}
	if q, ok := list[resourcePID]; ok {
		l.Pids = q.Value()
	}
	l.HugePages = hugePages(list)
	return l
}
