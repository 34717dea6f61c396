//go:build linux

package volume_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

func TestKernelSetGroup(t *testing.T) {
	needsMounts(t)
	outside := t.TempDir()
	write(t, outside+"/f", "x")
	must(t, os.Chmod(outside+"/f", 0o600))
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o700))
	write(t, dir+"/d/f", "x")
	must(t, os.Chmod(dir+"/d/f", 0o400|fs.ModeSetuid))
	must(t, os.Chmod(dir+"/d", 0o700|fs.ModeSticky))
	link(t, outside+"/f", dir+"/out")
	link(t, "none", dir+"/dangling")
	write(t, dir+"/not utf-8 \xff/f", "x")
	must(t, volume.Mounter{}.SetGroup(t.Context(), dir, volume.Ownership{Group: 77}))
	modeAndGroup(t, dir, fs.ModeDir|fs.ModeSetgid|0o770, 77)
	modeAndGroup(t, dir+"/d", fs.ModeDir|fs.ModeSetgid|fs.ModeSticky|0o770, 77)
	modeAndGroup(t, dir+"/d/f", fs.ModeSetuid|0o660, 77)
	modeAndGroup(t, dir+"/out", fs.ModeSymlink|0o777, 77)
	modeAndGroup(t, dir+"/not utf-8 \xff/f", 0o664, 77)
	modeAndGroup(t, outside+"/f", 0o600, 0)

	// As it is to be, by its directory: nothing in it is looked at.
	must(t, os.Chmod(dir+"/d/f", 0o600))
	must(t, volume.Mounter{}.SetGroup(t.Context(), dir, volume.Ownership{Group: 77, OnRootMismatch: true}))
	modeAndGroup(t, dir+"/d/f", 0o600, 77)
	for _, mode := range []fs.FileMode{0o770, 0o760 | fs.ModeSetgid, 0o570 | fs.ModeSetgid} {
		must(t, os.Chmod(dir+"/d/f", 0o600))
		must(t, os.Chmod(dir, mode))
		must(t, volume.Mounter{}.SetGroup(t.Context(), dir, volume.Ownership{Group: 77, OnRootMismatch: true}))
		modeAndGroup(t, dir+"/d/f", 0o660, 77)
	}
	must(t, volume.Mounter{}.SetGroup(t.Context(), dir, volume.Ownership{Group: 78, OnRootMismatch: true}))
	modeAndGroup(t, dir+"/d/f", 0o660, 78)

	readOnly := t.TempDir()
	must(t, os.Chmod(readOnly, 0o700))
	write(t, readOnly+"/f", "x")
	must(t, os.Chmod(readOnly+"/f", 0o600))
	must(t, volume.Mounter{}.SetGroup(t.Context(), readOnly, volume.Ownership{Group: 77, ReadOnly: true}))
	modeAndGroup(t, readOnly+"/f", 0o640, 77)
	modeAndGroup(t, readOnly, fs.ModeDir|fs.ModeSetgid|0o750, 77)
}

// TestKernelSetGroupEndsWithItsContext: then the directory does not say that all in it are as
// they are to be.
func TestKernelSetGroupEndsWithItsContext(t *testing.T) {
	needsMounts(t)
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o700))
	write(t, dir+"/a", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (volume.Mounter{}).SetGroup(ctx, dir, volume.Ownership{Group: 78}); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	modeAndGroup(t, dir, fs.ModeDir|0o700, 0)
}

// TestKernelSetGroupEntersMounts: what is mounted in a volume is seen by the pod. What can only
// be read stays as it is, unless it is the volume itself.
func TestKernelSetGroupEntersMounts(t *testing.T) {
	needsMounts(t)
	dir, other := t.TempDir(), t.TempDir()
	must(t, os.Chmod(dir, 0o700))
	write(t, other+"/f", "x")
	must(t, os.Chmod(other+"/f", 0o600))
	for _, name := range []string{"/own", "/bound", "/fixed"} {
		must(t, os.Mkdir(dir+name, 0o700))
		t.Cleanup(func() { _ = unix.Unmount(dir+name, unix.MNT_DETACH) })
	}
	must(t, unix.Mount("tmpfs", dir+"/own", "tmpfs", 0, ""))
	write(t, dir+"/own/f", "x")
	must(t, os.Chmod(dir+"/own/f", 0o600))
	must(t, unix.Mount(other, dir+"/bound", "", unix.MS_BIND, "")) // of the same file system
	must(t, unix.Mount("tmpfs", dir+"/fixed", "tmpfs", 0, ""))
	write(t, dir+"/fixed/d/f", "x")
	must(t, os.Chmod(dir+"/fixed/d/f", 0o600))
	must(t, unix.Mount("", dir+"/fixed", "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	must(t, volume.Mounter{}.SetGroup(t.Context(), dir, volume.Ownership{Group: 77}))
	modeAndGroup(t, dir+"/own/f", 0o660, 77)
	modeAndGroup(t, other+"/f", 0o660, 77)
	modeAndGroup(t, dir+"/fixed/d/f", 0o600, 0)
	modeAndGroup(t, dir, fs.ModeDir|fs.ModeSetgid|0o770, 77)
	if err := (volume.Mounter{}).SetGroup(t.Context(), dir+"/fixed", volume.Ownership{Group: 77}); !errors.Is(err, unix.EROFS) {
		t.Errorf("error is %v for a volume that can only be read, want EROFS", err)
	}
}
