//go:build linux

package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Share makes a directory, as [Config].Root, and all that is mounted below it shared: what is
// mounted there later is seen by containers that mount it with propagation, and what those
// mount is seen by the node
// (https://kubernetes.io/docs/concepts/storage/volumes/#mount-propagation). It makes the
// directory if there is none. One that is on a shared mount already stays as it is; another
// one becomes a mount point of its own, which stays.
func (Mounter) Share(ctx context.Context, dir string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	mount, err := mountOf(dir)
	if err != nil {
		return fmt.Errorf("share %s: %w", dir, err)
	}
	if strings.Contains(" "+mount.Optional, " shared:") {
		return nil
	}
	if err := unix.Mount(dir, dir, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("share %s: bind it to itself: %w", dir, err)
	}
	if err := unix.Mount("", dir, "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("share %s: %w", dir, err)
	}
	return nil
}

// mountOf returns the mount that a directory is on.
func mountOf(dir string) (*mountinfo.Info, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	f, err := os.Open("/proc/thread-self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	parents, err := mountinfo.GetMountsFromReader(f, mountinfo.ParentsFilter(dir))
	if err != nil {
		return nil, err
	}
	var of *mountinfo.Info
	for _, p := range parents { // of two at one place, the later one is on top
		if of == nil || len(p.Mountpoint) >= len(of.Mountpoint) {
			of = p
		}
	}
	if of == nil {
		return nil, errors.New("it is on no mount")
	}
	return of, nil
}

// MemoryMaySwap reports whether volumes in memory can be written to disk: the node swaps, and
// the kernel does not know file systems in memory that it never swaps (Linux 6.4). Users of
// the node are told so by an event of the reason PossibleMemoryBackedVolumesOnDisk.
func (Mounter) MemoryMaySwap() (bool, error) {
	swaps, err := os.ReadFile("/proc/swaps")
	if errors.Is(err, os.ErrNotExist) {
		return false, nil // the kernel does not swap
	}
	if err != nil {
		return false, err
	}
	if strings.Count(strings.TrimSpace(string(swaps)), "\n") == 0 { // a line of titles
		return false, nil
	}
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return false, fmt.Errorf("ask the kernel for tmpfs: %w", err)
	}
	defer func() { _ = unix.Close(fs) }()
	return unix.FsconfigSetFlag(fs, "noswap") != nil, nil
}
