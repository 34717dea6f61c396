package podsync

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// isPathElement reports whether a UID or a name from elsewhere names a directory of
// its own.
func isPathElement[T ~string](name T) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(string(name), "/\x00")
}

// removePodDir removes all the agent has on disk of a pod but its logs.
func (s *Syncer) removePodDir(ctx context.Context, uid types.UID) error {
	if err := s.tearDown(ctx, uid); err != nil {
		return err
	}
	return s.disk.removeTree(filepath.Dir(s.cfg.Node.PodDir(uid)), string(uid))
}

// removeLogDirs removes the logs of a pod. Their directory is named after its
// namespace, name and UID, of which only the UID may hold an underscore.
func (s *Syncer) removeLogDirs(uid types.UID) error {
	entries, err := os.ReadDir(s.cfg.Node.Logs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read log directories: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if parts := strings.SplitN(e.Name(), "_", 3); len(parts) == 3 && parts[2] == string(uid) {
			errs = append(errs, s.disk.removeTree(s.cfg.Node.Logs, e.Name()))
		}
	}
	return errors.Join(errs...)
}

// removeTree removes name and all below it from a directory. It never follows a
// link, and it removes nothing while a file system is mounted anywhere in it: what
// is mounted is not the agent's.
func removeTree(dir, name string) error {
	path := filepath.Join(dir, name)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	defer mounts.Close()
	if err := removeUnmounted(mounts, dir, name); err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// removeUnmounted is removeTree with the table of mounts handed in.
func removeUnmounted(mountinfo io.Reader, dir, name string) error {
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	mounted, err := mountBelow(mountinfo, filepath.Join(resolved, name))
	if err != nil {
		return err
	}
	if mounted != "" {
		return fmt.Errorf("a file system is mounted at %s", mounted)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return root.RemoveAll(name)
}

// mountBelow returns a mount point at or below a directory, empty if there is none.
// The input has the format of /proc/self/mountinfo, proc_pid_mountinfo(5), where the
// fifth field is the mount point.
func mountBelow(mountinfo io.Reader, dir string) (string, error) {
	const field = 4
	lines := bufio.NewScanner(mountinfo)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) <= field {
			continue
		}
		at := unescape.Replace(fields[field])
		if at == dir || strings.HasPrefix(at, dir+"/") {
			return at, nil
		}
	}
	return "", lines.Err()
}

// unescape undoes the escapes of mount points.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`) //nolint:gochecknoglobals // a constant table

// Cgroups removes the cgroup of a pod.
type Cgroups interface {
	// RemoveCgroup removes an empty cgroup, given as a path below the mounts of the
	// hierarchies. One that is not there is no error.
	RemoveCgroup(ctx context.Context, path string) error
}

// CgroupDirs are the mounts of cgroup hierarchies: /sys/fs/cgroup alone with cgroup
// v2, one directory per controller with v1. It implements [Cgroups].
type CgroupDirs []string

// RemoveCgroup removes the cgroup from every hierarchy. It fails when processes or
// cgroups stay in it for longer than a second.
func (d CgroupDirs) RemoveCgroup(ctx context.Context, path string) error {
	return whileBusy(ctx, func() error {
		var errs []error
		for _, mount := range d {
			if err := os.Remove(filepath.Join(mount, path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	})
}

// whileBusy calls remove again while it fails with EBUSY, for about a second: a
// cgroup is busy for a moment after its last process has died, and a runtime may
// remove the container's own cgroup late.
func whileBusy(ctx context.Context, remove func() error) error {
	const first, last = 10 * time.Millisecond, 640 * time.Millisecond
	for wait := first; ; wait *= 2 {
		err := remove()
		if !errors.Is(err, unix.EBUSY) || wait > last {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

// removeCgroup removes the cgroup of a pod of one of these classes.
func (s *Syncer) removeCgroup(ctx context.Context, uid types.UID, classes ...corev1.PodQOSClass) error {
	if !isPathElement(uid) {
		return nil
	}
	if s.cfg.Parts.PodCgroups != nil {
		if err := s.cfg.Parts.PodCgroups.RemovePod(ctx, uid); err != nil {
			return fmt.Errorf("remove cgroup of pod %s: %w", uid, err)
		}
		return nil
	}
	if s.cfg.Cgroups == nil {
		return nil
	}
	var errs []error
	for _, class := range classes {
		path := s.cfg.Node.Cgroups.Path(uid, class)
		if err := s.cfg.Cgroups.RemoveCgroup(ctx, path); err != nil {
			errs = append(errs, fmt.Errorf("remove cgroup %s: %w", path, err))
		}
	}
	return errors.Join(errs...)
}
