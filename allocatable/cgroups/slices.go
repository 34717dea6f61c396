//go:build linux

package cgroups

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nodekit-go/nodekit/allocatable"
)

// ensure makes a group and sets its limits in all hierarchies, and in systemd's books if
// it keeps them: it would write to the files what it knows of, the next time it has to do
// with them. The files are first, since they tell whether a limit can be set at all.
func (t *Tree) ensure(ctx context.Context, group string, l Limits) error {
	if t.cfg.Slices == nil {
		return t.each(ctx, func(m *Mount) error { return m.ensure(group, l) })
	}
	l = l.asSystemd()
	slice := path.Base(group)
	if !t.everywhere(group) {
		if err := t.cfg.Slices.Start(ctx, slice, newSlice(slice, t.v2())); err != nil {
			return err
		}
	}
	if err := t.each(ctx, func(m *Mount) error { return m.ensure(group, l) }); err != nil {
		return err
	}
	properties := l.properties(t.v2())
	if len(properties) == 0 {
		return nil
	}
	return t.cfg.Slices.Set(ctx, slice, properties)
}

// everywhere reports whether a group is there in every hierarchy with limits.
func (t *Tree) everywhere(group string) bool {
	return !slices.ContainsFunc(t.cfg.Mounts, func(m Mount) bool { return m.governs() && !exists(m.dir(group)) })
}

// v2 reports whether memory is limited by cgroup v2, which is then what systemd uses.
func (t *Tree) v2() bool {
	return slices.ContainsFunc(t.cfg.Mounts, func(m Mount) bool { return m.V2 && m.has("memory") })
}

// claimCPUs tells systemd that kubepods has all CPUs: it takes the controller cpuset away
// from slices of which it does not know that they need it, and containers may be pinned.
func (t *Tree) claimCPUs(ctx context.Context) error {
	i := slices.IndexFunc(t.cfg.Mounts, func(m Mount) bool { return m.V2 && m.has("cpuset") })
	if t.cfg.Slices == nil || i < 0 {
		return nil
	}
	raw, err := os.ReadFile(filepath.Join(t.cfg.Mounts[i].Path, "cpuset.cpus.effective"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the group at the top of a container
	}
	if err != nil {
		return fmt.Errorf("find the CPUs of the machine: %w", err)
	}
	cpus, err := allocatable.ParseCPUs(strings.TrimSpace(string(raw)))
	if err != nil {
		return fmt.Errorf("find the CPUs of the machine: %w", err)
	}
	return t.cfg.Slices.Set(ctx, path.Base(t.names.path("kubepods")), []Property{{"AllowedCPUs", cpuMask(cpus)}})
}
