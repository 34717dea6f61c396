//go:build linux

package cgroups

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"time"

	"github.com/opencontainers/cgroups"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
)

// RemovePod removes the groups of a pod and all below them, in every hierarchy. Its
// containers should have been stopped: whatever still runs in there is killed. One
// that is not there is no error. It tries for about two seconds: processes need a
// moment to be gone.
func (t *Tree) RemovePod(ctx context.Context, uid types.UID) error {
	if !isElement(uid) {
		return nil // such a pod never had one
	}
	const first, last = 5 * time.Millisecond, 640 * time.Millisecond
	for wait := first; ; wait *= 2 {
		err := t.removePod(ctx, uid)
		if err == nil || wait > last {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(wait):
		}
	}
}

// removePod kills once and removes what is empty then.
func (t *Tree) removePod(ctx context.Context, uid types.UID) error {
	var errs []error
	for _, group := range t.names.places(uid) {
		dirs := t.dirs(group)
		if len(dirs) == 0 {
			continue
		}
		if err := t.empty(uid, dirs); err != nil {
			errs = append(errs, err)
			continue
		}
		if err := t.removeGroup(ctx, group, dirs); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// dirs returns the directories of a group, in every hierarchy that has it.
func (t *Tree) dirs(group string) []string {
	var out []string
	for i := range t.cfg.Mounts {
		if dir := t.cfg.Mounts[i].dir(group); exists(dir) {
			out = append(out, dir)
		}
	}
	return out
}

// empty kills what still runs in the group of a pod.
func (t *Tree) empty(uid types.UID, dirs []string) error {
	var errs []error
	for _, dir := range dirs {
		n, err := killAll(dir)
		if n > 0 {
			t.log.Warn("processes were left in the control group of an ended pod and were killed", "uid", uid, "dir", dir, "count", n)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("remove control group %s: %w", dir, err))
		}
	}
	return errors.Join(errs...)
}

// removeGroup removes a group in which nothing runs: its slice, if it is one, and then
// what is left of it in the hierarchies that systemd does not look after.
func (t *Tree) removeGroup(ctx context.Context, group string, dirs []string) error {
	if t.cfg.Slices != nil {
		if err := t.cfg.Slices.Stop(ctx, path.Base(group)); err != nil {
			return fmt.Errorf("remove control group %s: %w", group, err)
		}
	}
	var errs []error
	for _, dir := range dirs {
		if err := removeAll(dir); err != nil {
			errs = append(errs, fmt.Errorf("remove control group %s: %w", dir, err))
		}
	}
	return errors.Join(errs...)
}

// CollectPod removes the groups of a pod if nothing runs in any of them. Groups that
// are in use stay, which is no error: it is for pods of which nobody knows whose they
// are.
func (t *Tree) CollectPod(ctx context.Context, uid types.UID) error {
	if !isElement(uid) {
		return nil
	}
	found := map[string][]string{}
	for _, group := range t.names.places(uid) {
		found[group] = t.dirs(group)
		for _, dir := range found[group] {
			if used, err := inUse(dir); used || err != nil {
				return err
			}
		}
	}
	var errs []error
	for group, dirs := range found {
		if len(dirs) == 0 {
			continue
		}
		if err := t.removeGroup(ctx, group, dirs); err != nil && !errors.Is(err, unix.EBUSY) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// inUse reports whether there is a process in a group or below it.
func inUse(dir string) (bool, error) {
	used := false
	err := filepath.WalkDir(dir, func(at string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return ignoreGone(err)
		}
		pids, err := processes(at)
		if used = used || len(pids) > 0; used {
			return fs.SkipAll
		}
		return err
	})
	return used, err
}

// removeAll removes a group and those below it, deepest first, without waiting.
func removeAll(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ignoreGone(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return ignoreGone(unix.Rmdir(dir))
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// killAll kills every process in a group and below it, and returns how many it found.
func killAll(dir string) (int, error) {
	found := 0
	err := filepath.WalkDir(dir, func(at string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return ignoreGone(err)
		}
		pids, err := processes(at)
		if err != nil {
			return err
		}
		for _, pid := range pids {
			found++
			if err := kill(at, pid); err != nil {
				return fmt.Errorf("kill process %d: %w", pid, err)
			}
		}
		return nil
	})
	return found, err
}

// processes returns the processes in a group itself.
func processes(dir string) ([]int, error) {
	f, err := cgroups.OpenFile(dir, "cgroup.procs", unix.O_RDONLY)
	if err != nil {
		return nil, ignoreGone(err)
	}
	defer f.Close()
	var pids []int
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// 0 is a process of another PID namespace.
		if pid, err := strconv.Atoi(lines.Text()); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, ignoreGone(lines.Err())
}

// kill kills a process if it is still in the group once it is held: its number cannot
// stand for another one then.
func kill(dir string, pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return nil //nolint:nilerr // gone
	}
	defer func() { _ = p.Release() }()
	now, err := processes(dir)
	if err != nil {
		return err
	}
	for _, still := range now {
		if still == pid {
			if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return err
			}
		}
	}
	return nil
}
