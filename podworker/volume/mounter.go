//go:build linux

package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	mountutils "k8s.io/mount-utils"
)

// Mounter mounts for pods. The zero value is ready to use.
type Mounter struct{}

// dirMode is the mode of the directories around targets.
const dirMode = 0o750

// Bind binds sub, a path beneath the directory base, to target. A part of sub that
// does not exist is made a directory, with mode or, for 0, with the mode of base. What
// is bound to target already stays if it is what sub names now, else it is replaced:
// after the content of base was swapped, a container that starts gets the new one.
func (Mounter) Bind(ctx context.Context, base, sub, target string, mode fs.FileMode) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	source, err := openOrMake(base, sub, mode)
	if err != nil {
		return fmt.Errorf("open %s beneath %s: %w", sub, base, err)
	}
	defer source.Close()
	if err := bind(source, target); err != nil {
		return fmt.Errorf("bind %s beneath %s to %s: %w", sub, base, target, err)
	}
	return nil
}

// bind binds what is open to target.
func bind(source *os.File, target string) error {
	var want unix.Stat_t
	if err := unix.Fstat(int(source.Fd()), &want); err != nil {
		return err
	}
	bound, err := isMountPoint(target)
	if err != nil {
		return err
	}
	if bound {
		if same(target, &want) {
			return nil
		}
		// A container of before may still hold it; its view stays.
		if err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount what was there: %w", err)
		}
	}
	if err := makeTarget(target, want.Mode&unix.S_IFMT == unix.S_IFDIR); err != nil {
		return err
	}
	from := fmt.Sprintf("/proc/self/fd/%d", source.Fd())
	if err := unix.Mount(from, target, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	if !same(target, &want) {
		return errors.New("something else was bound")
	}
	return nil
}

// same reports whether path is the file of an open descriptor.
func same(path string, want *unix.Stat_t) bool {
	var got unix.Stat_t
	return unix.Lstat(path, &got) == nil && got.Dev == want.Dev && got.Ino == want.Ino
}

// makeTarget makes a directory or an empty file to mount on, in place of one of the
// other kind.
func makeTarget(target string, dir bool) error {
	if err := os.MkdirAll(filepath.Dir(target), dirMode); err != nil {
		return err
	}
	info, err := os.Lstat(target)
	switch {
	case err == nil && info.IsDir() == dir && info.Mode()&fs.ModeSymlink == 0:
		return nil
	case err == nil:
		if err := os.Remove(target); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if dir {
		return os.Mkdir(target, dirMode)
	}
	f, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	return f.Close()
}

// Memory mounts a file system in memory of at most size bytes, 0 for half of the
// memory, whose root has a mode. It is never written to swap where the kernel can
// promise that (Linux 6.4). One that is there already stays as it is.
func (Mounter) Memory(ctx context.Context, path string, size int64, mode fs.FileMode) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	mounted, err := isMountPoint(path)
	if err != nil || mounted {
		return err
	}
	if err := os.MkdirAll(path, dirMode); err != nil {
		return err
	}
	options := fmt.Sprintf("mode=%o", mode.Perm())
	if size > 0 {
		options += fmt.Sprintf(",size=%d", size)
	}
	err = unix.Mount("tmpfs", path, "tmpfs", 0, options+",noswap")
	if errors.Is(err, unix.EINVAL) {
		err = unix.Mount("tmpfs", path, "tmpfs", 0, options)
	}
	if err != nil {
		return fmt.Errorf("mount tmpfs with %s at %s: %w", options, path, err)
	}
	return os.Chmod(path, mode) // sticky and set-group-ID bits, too
}

// HugePages mounts a file system of huge pages (hugetlbfs) with pages of one size, in
// bytes, that holds at most size bytes; 0: as many as the kernel has. One that is there
// already stays as it is.
func (Mounter) HugePages(ctx context.Context, path string, page, size int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	mounted, err := isMountPoint(path)
	if err != nil || mounted {
		return err
	}
	if err := os.MkdirAll(path, dirMode); err != nil {
		return err
	}
	options := fmt.Sprintf("pagesize=%d", page)
	if size > 0 {
		options += fmt.Sprintf(",size=%d", size)
	}
	if err := unix.Mount("nodev", path, "hugetlbfs", 0, options); err != nil {
		return fmt.Errorf("mount hugetlbfs with %s at %s: %w", options, path, err)
	}
	return nil
}

// isMountPoint reports whether something is mounted at a path, whose last element is
// not followed if it is a link. A path that does not exist is none.
func isMountPoint(path string) (bool, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_TYPE, &st)
	switch {
	case errors.Is(err, unix.ENOENT):
		return false, nil
	case err != nil && mountutils.IsCorruptedMnt(err):
		return true, nil // it does not answer, but something is mounted
	case err != nil:
		return false, &os.PathError{Op: "statx", Path: path, Err: err}
	case st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0:
		return false, &os.PathError{Op: "statx", Path: path, Err: errors.New("the kernel does not tell mount points, it needs Linux 5.8")}
	}
	return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}

// Unmount undoes every mount at or below a directory, the last one first. It fails
// when one of them is in use. A directory that does not exist has none.
func (Mounter) Unmount(ctx context.Context, dir string) error {
	points, err := mountsBelow(dir)
	if err != nil {
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	var errs []error
	for _, p := range slices.Backward(points) {
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
		if err := unix.Unmount(p, unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", p, err))
		}
	}
	return errors.Join(errs...)
}

// mountsBelow returns the mount points at or below a directory, in the order in which they
// were mounted.
func mountsBelow(dir string) ([]string, error) {
	f, err := os.Open("/proc/thread-self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// What is mounted has no links in its path. What is mounted at dir itself may not
	// answer any more.
	parent, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	infos, err := mountinfo.GetMountsFromReader(f, mountinfo.PrefixFilter(filepath.Join(parent, filepath.Base(dir))))
	if err != nil {
		return nil, err
	}
	points := make([]string, len(infos))
	for i := range infos {
		points[i] = infos[i].Mountpoint
	}
	return points, nil
}
