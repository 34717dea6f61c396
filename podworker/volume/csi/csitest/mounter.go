package csitest

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Mounter makes the mounts of a Driver.
type Mounter interface {
	// Bind shows a directory or file at another place, which exists.
	Bind(source, target string, readOnly bool) error
	// Unmount undoes it.
	Unmount(target string) error
	// Mounted reports whether something is mounted at a place.
	Mounted(target string) (bool, error)
}

// kernel makes real mounts.
type kernel struct{}

// Bind implements Mounter.
func (kernel) Bind(source, target string, readOnly bool) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s to %s: %w", source, target, err)
	}
	if !readOnly {
		return nil
	}
	if err := unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("make %s read-only: %w", target, err)
	}
	return nil
}

// Unmount implements Mounter.
func (kernel) Unmount(target string) error {
	if err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW); err != nil {
		return fmt.Errorf("unmount %s: %w", target, err)
	}
	return nil
}

// Mounted implements Mounter.
func (kernel) Mounted(target string) (bool, error) {
	// What is mounted has no links in its path.
	parent, err := filepath.EvalSymlinks(filepath.Dir(target))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	points, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(filepath.Join(parent, filepath.Base(target))))
	return len(points) > 0, err
}

// Table is a mount table in memory. The zero value is empty and ready to use.
type Table struct {
	mu     sync.Mutex // guards mounts
	mounts map[string]string
}

// Bind implements Mounter.
func (t *Table) Bind(source, target string, _ bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mounts == nil {
		t.mounts = map[string]string{}
	}
	if _, ok := t.mounts[target]; ok {
		return fmt.Errorf("bind %s to %s: something is mounted there", source, target)
	}
	t.mounts[target] = source
	return nil
}

// Unmount implements Mounter.
func (t *Table) Unmount(target string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.mounts[target]; !ok {
		return fmt.Errorf("unmount %s: nothing is mounted there", target)
	}
	delete(t.mounts, target)
	return nil
}

// Mounted implements Mounter.
func (t *Table) Mounted(target string) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.mounts[target]
	return ok, nil
}

// Below returns the places at or below a directory where something is mounted, sorted.
func (t *Table) Below(dir string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []string
	for _, p := range slices.Sorted(maps.Keys(t.mounts)) {
		if p == dir || strings.HasPrefix(p, filepath.Clean(dir)+"/") {
			out = append(out, p)
		}
	}
	return out
}

// Clear forgets all mounts, as a machine that is started anew does.
func (t *Table) Clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.mounts)
}
