//go:build linux

package cgroups

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// AwaitPodsMemory waits until the working set of all pods together passes a number of
// bytes, up or down, or until ctx ends, which is its error then. With cgroup v1 the kernel
// tells. It counts pages of files that were not used for a while, too: how many there are
// is looked up at the call, so that the mark holds for some seconds only, and the caller
// sets a deadline and calls again. With cgroup v2, of which the kernel tells no marks, it is
// looked each second.
func (t *Tree) AwaitPodsMemory(ctx context.Context, workingSet int64) error {
	return t.awaitMemory(ctx, t.names.path("kubepods"), workingSet)
}

// AwaitMachineMemory is [Tree.AwaitPodsMemory] for what [Tree.MachineUsage] tells of.
func (t *Tree) AwaitMachineMemory(ctx context.Context, workingSet int64) error {
	return t.awaitMemory(ctx, "/", workingSet)
}

func (t *Tree) awaitMemory(ctx context.Context, group string, workingSet int64) error {
	i := slices.IndexFunc(t.cfg.Mounts, func(m Mount) bool { return m.has("memory") })
	m := &t.cfg.Mounts[i] // there is one: Config is valid
	await := awaitMark
	if m.V2 {
		await = m.lookForMark
	}
	if err := await(ctx, m.dir(group), workingSet); err != nil {
		return fmt.Errorf("wait for memory of control group %s: %w", group, err)
	}
	return nil
}

// lookEvery is the time between two looks at memory of which the kernel does not tell: a
// tenth of that between two measurements of a node.
const lookEvery = time.Second

// lookForMark waits until the working set of a group is on the other side of a mark.
func (m *Mount) lookForMark(ctx context.Context, dir string, workingSet int64) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var u Usage
	if err := m.readMemory(dir, &u); err != nil {
		return err
	}
	for above := u.Memory >= workingSet; u.Memory >= workingSet == above; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if err := m.readMemory(dir, &u); err != nil {
			return err
		}
	}
	return nil
}

// awaitMark registers a mark with the kernel and waits for it: an eventfd, the file
// that is watched and the number of bytes are written to cgroup.event_control
// (kernel: Documentation/admin-guide/cgroup-v1/memory.rst, "Memory thresholds").
// Closing the eventfd takes the mark back.
func awaitMark(ctx context.Context, dir string, workingSet int64) error {
	unused, err := entry(dir, "memory.stat", "total_inactive_file")
	if err != nil {
		return err
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	event := os.NewFile(uintptr(fd), "eventfd") // nonblocking, so that closing it ends a read
	defer event.Close()
	watched, err := os.Open(filepath.Join(dir, "memory.usage_in_bytes"))
	if err != nil {
		return err
	}
	defer watched.Close()
	mark := fmt.Sprintf("%d %d %d", fd, watched.Fd(), workingSet+unused)
	if err := os.WriteFile(filepath.Join(dir, "cgroup.event_control"), []byte(mark), 0); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = event.Close() })
	defer stop()
	if _, err := event.Read(make([]byte, 8)); err != nil && ctx.Err() == nil {
		return err
	}
	return ctx.Err()
}
