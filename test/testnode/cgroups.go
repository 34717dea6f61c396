package testnode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// hierarchies returns the mount points of all control-group hierarchies: one per
// controller with cgroup v1, one in all with v2, both on hybrid hosts.
func hierarchies() ([]string, error) {
	infos, err := mountInfo()
	if err != nil {
		return nil, err
	}
	var roots []string
	for _, info := range infos {
		if (info.fsType == "cgroup" || info.fsType == "cgroup2") && !slices.Contains(roots, info.path) {
			roots = append(roots, info.path)
		}
	}
	if len(roots) == 0 {
		return nil, errors.New("find control groups: none is mounted under /sys/fs/cgroup")
	}
	return roots, nil
}

// makeCgroups makes the node's root control group in every hierarchy. A kubelet
// takes processes below its root that it does not know for orphans, so two nodes
// must not share one.
func (l layout) makeCgroups() error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		if err := os.MkdirAll(filepath.Join(root, l.cgroup()), 0o755); err != nil {
			return fmt.Errorf("make control group: %w", err)
		}
	}
	return nil
}

// cgroups lists the node's control groups in all hierarchies, deepest first.
func (l layout) cgroups() ([]string, error) {
	roots, err := hierarchies()
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, root := range roots {
		err := filepath.WalkDir(filepath.Join(root, l.cgroup()), func(path string, entry fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // Never made, or gone while we look.
			}
			if err == nil && entry.IsDir() {
				dirs = append(dirs, path)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("list control groups: %w", err)
		}
	}
	slices.Sort(dirs)
	slices.Reverse(dirs)
	return slices.Compact(dirs), nil
}

// removeCgroups removes the node's control groups. The kernel refuses for a
// moment after the last process died, hence the retries.
func (l layout) removeCgroups(ctx context.Context) error {
	deadline := time.Now().Add(5 * time.Second)
	for {
		dirs, err := l.cgroups()
		if err != nil || len(dirs) == 0 {
			return err
		}
		var last error
		for _, dir := range dirs {
			if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
				last = fmt.Errorf("remove control group %s: %w", dir, err)
			}
		}
		if last != nil && time.Now().After(deadline) {
			return last
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// cgroupProcesses returns the processes in the node's control groups.
func (l layout) cgroupProcesses() ([]int, error) {
	dirs, err := l.cgroups()
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, dir := range dirs {
		data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list processes: %w", err)
		}
		pids = append(pids, parsePIDs(string(data))...)
	}
	return pids, nil
}

func parsePIDs(text string) []int {
	var pids []int
	for field := range strings.FieldsSeq(text) {
		var pid int
		if _, err := fmt.Sscanf(field, "%d", &pid); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}
