package testnode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// shimSocketDir is where containerd 1.6 and 2.x put the sockets of their shims,
// whatever their own state folder is.
const shimSocketDir = "/run/containerd/s"

// cniCacheDir is where the CNI library of containerd keeps one file per attachment.
const cniCacheDir = "/var/lib/cni/results"

// destroy removes everything the environment made, running or not. It goes on
// after errors, and keeps the folder while anything else could not be removed,
// so that the next call finds the rest. It is idempotent.
func (l layout) destroy(ctx context.Context) error {
	outside := append(l.shimSockets(), l.cniResults()...)
	err := errors.Join(
		l.removeAdoptedPods(ctx),
		l.killAll(ctx),
		l.runAtEnd(ctx),
		l.removeDeadSockets(ctx),
		l.unmountAll(),
		l.removeCgroups(ctx),
		removeFiles(outside),
	)
	if err != nil {
		return err
	}
	return os.RemoveAll(l.dir)
}

// Leftovers lists what is still there of the environment called name: processes,
// mounts (the network namespace is one), control groups and files.
func Leftovers(name string) ([]string, error) {
	return layout{name: name, dir: filepath.Join(baseDir, name)}.leftovers()
}

func (l layout) leftovers() ([]string, error) {
	pids, err1 := l.processes()
	mounts, err2 := l.mounts()
	groups, err3 := l.cgroups()
	var left []string
	for _, pid := range pids {
		left = append(left, fmt.Sprintf("process %d (%s)", pid, commandLine(pid)))
	}
	for _, mount := range mounts {
		left = append(left, "mount "+mount)
	}
	for _, group := range groups {
		left = append(left, "control group "+group)
	}
	for _, path := range append(l.cniResults(), l.dir) {
		if _, err := os.Lstat(path); err == nil {
			left = append(left, "file "+path)
		}
	}
	return left, errors.Join(err1, err2, err3)
}

// killAll kills until nothing is left: a shim that dies may leave a child that
// was not seen in the pass before.
func (l layout) killAll(ctx context.Context) error {
	deadline := time.Now().Add(15 * time.Second)
	for {
		pids, err := l.processes()
		if err != nil || len(pids) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("kill processes of %s: %v still run 15 s after SIGKILL", l.name, pids)
		}
		for _, pid := range pids {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("kill process %d: %w", pid, err)
			}
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// pause waits for a moment or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// mounts returns the mount points in the environment's folder, deepest first.
func (l layout) mounts() ([]string, error) {
	infos, err := mountInfo()
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, info := range infos {
		if strings.HasPrefix(info.path, l.dir+"/") {
			paths = append(paths, info.path)
		}
	}
	slices.Sort(paths)
	slices.Reverse(paths)
	return paths, nil
}

func (l layout) unmountAll() error {
	paths, err := l.mounts()
	if err != nil {
		return err
	}
	for _, path := range paths {
		if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
	return nil
}

// shimSockets finds the shims' sockets through the address files they wrote.
func (l layout) shimSockets() []string {
	files, err := filepath.Glob(filepath.Join(l.tasks(), "*", "address"))
	if err != nil {
		return nil // Only a malformed pattern fails, and this one is constant.
	}
	var sockets []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // The shim left meanwhile, and its socket with it.
		}
		path := strings.TrimPrefix(string(bytes.TrimSpace(data)), "unix://")
		if filepath.Dir(path) == shimSocketDir {
			sockets = append(sockets, path)
		}
	}
	return sockets
}

// removeDeadSockets removes the sockets of shims that containerd gave up while
// they started, and of which it forgot the address. They are recognised by being
// younger than the node and by nobody answering, which makes them useless to
// everybody.
func (l layout) removeDeadSockets(ctx context.Context) error {
	lock, err := os.Stat(l.path(lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // It died before it could have started anything.
	}
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(shimSocketDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list sockets of shims: %w", err)
	}
	var dead []string
	for _, entry := range entries {
		path := filepath.Join(shimSocketDir, entry.Name())
		info, err := entry.Info()
		if err == nil && info.ModTime().After(lock.ModTime()) && isDead(ctx, path) {
			dead = append(dead, path)
		}
	}
	return removeFiles(dead)
}

// isDead reports whether nobody listens at a unix socket. A socket that was just
// made does not answer for a moment either, so it is asked thrice.
func isDead(ctx context.Context, path string) bool {
	for range 3 {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
		if err == nil {
			conn.Close()
			return false
		}
		if !errors.Is(err, unix.ECONNREFUSED) || pause(ctx, 20*time.Millisecond) != nil {
			return false
		}
	}
	return true
}

// tasks is where containerd keeps a folder per running sandbox and container,
// called by its id.
func (l layout) tasks() string {
	return l.path("state", "io.containerd.runtime.v2.task", "k8s.io")
}

// cniResults finds the files that the CNI library keeps for the node's sandboxes:
// one for the node's network and one for the loopback device.
func (l layout) cniResults() []string {
	files, err := filepath.Glob(filepath.Join(cniCacheDir, l.network()+"-*"))
	if err != nil {
		return nil // As above.
	}
	sandboxes, err := os.ReadDir(l.tasks())
	if err != nil {
		return files // No sandbox was ever made.
	}
	for _, sandbox := range sandboxes {
		loopback := filepath.Join(cniCacheDir, "cni-loopback-"+sandbox.Name()+"-lo")
		if _, err := os.Lstat(loopback); err == nil {
			files = append(files, loopback)
		}
	}
	return files
}

func removeFiles(paths []string) error {
	var errs []error
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// run runs a command and puts what it printed into the error.
func run(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}
