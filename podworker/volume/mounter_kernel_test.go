//go:build linux

package volume_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

// inMountNamespace gives the test a table of mounts of its own. Its thread is never
// used for anything else.
func inMountNamespace(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS)
	if err == nil {
		err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	}
	if err == nil {
		return
	}
	if os.Getenv("REQUIRE_KERNEL") == "1" {
		t.Fatal(err)
	}
	t.Skipf("there is no mount namespace (REQUIRE_KERNEL=1 makes this a failure): %v", err)
}

// podDir returns a directory in which nothing stays mounted.
func podDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		if err := (volume.Mounter{}).Unmount(context.WithoutCancel(t.Context()), dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, to, path string) {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// mountsBelow returns the mount points below a directory.
func mountsBelow(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	for line := range strings.Lines(read(t, "/proc/thread-self/mountinfo")) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], dir) {
			out = append(out, f[4])
		}
	}
	return out
}

// publish writes a generation of a file into a volume as kubelets do: into a directory
// of its own, to which one link is turned.
func publish(t *testing.T, dir, generation string) {
	t.Helper()
	write(t, filepath.Join(dir, "..gen"+generation, "app.ini"), generation)
	link(t, "..gen"+generation, filepath.Join(dir, "..data_tmp"))
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "app.ini")); errors.Is(err, os.ErrNotExist) {
		link(t, "..data/app.ini", filepath.Join(dir, "app.ini"))
	}
}

// TestKernelSwappedContent: each start of a container gets the newest generation of a
// file mounted by subPath; what has not changed stays mounted.
func TestKernelSwappedContent(t *testing.T) {
	inMountNamespace(t)
	var m volume.Mounter
	dir, pod := t.TempDir(), t.TempDir()
	target := filepath.Join(pod, "volume-subpaths/conf/app/0")
	bind := func(want string) {
		t.Helper()
		if err := m.Bind(t.Context(), dir, "app.ini", target, 0); err != nil {
			t.Fatal(err)
		}
		if got := read(t, target); got != want {
			t.Errorf("the container sees generation %q, want %q", got, want)
		}
	}
	publish(t, dir, "1")
	bind("1")
	first := mountsBelow(t, pod)
	bind("1")
	if again := mountsBelow(t, pod); len(first) != 1 || len(again) != 1 {
		t.Errorf("mounts are %v, then %v, want the same one", first, again)
	}
	publish(t, dir, "2")
	if err := os.RemoveAll(filepath.Join(dir, "..gen1")); err != nil {
		t.Fatal(err)
	}
	bind("2")
	publish(t, dir, "3")
	bind("3")
	if err := m.Unmount(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if left := mountsBelow(t, pod); len(left) > 0 {
		t.Errorf("%v stay mounted", left)
	}
	if err := os.RemoveAll(pod); err != nil {
		t.Error(err)
	}
}

func TestKernelBind(t *testing.T) {
	inMountNamespace(t)
	outside := t.TempDir()
	write(t, filepath.Join(outside, "secret"), "secret")
	tests := []struct {
		name, sub   string
		file        string // in the volume, with the content "x"
		link        string // "l" in the volume, to where
		want, fails string // content of the target, or of "f" in it
	}{
		{name: "file", sub: "a/f", file: "a/f", want: "x"},
		{name: "directory", sub: "a", file: "a/f", want: "x"},
		{name: "link inside", sub: "l/f", file: "a/b/f", link: "a/../a/b", want: "x"},
		{name: "made beneath a link", sub: "l/new", file: "a/f", link: "a"},
		{name: "made", sub: "new/deep"},
		{name: "absolute link", sub: "l", link: outside, fails: "leads out of the volume"},
		{name: "link up", sub: "l/secret", link: "../" + filepath.Base(outside), fails: "leads out of the volume"},
		{name: "link to nowhere", sub: "l/x", link: "none", fails: "not a directory"},
		{name: "link of the kernel", sub: "l", link: "/proc/self/root", fails: "leads out of the volume"},
		{name: "up", sub: "../x", fails: "has to be relative"},
		{name: "absolute", sub: "/etc", fails: "has to be relative"},
		{name: "below a file", sub: "f/x", file: "f", fails: "not a directory"},
	}
	for _, tt := range tests {
		// No subtest: the namespace is that of this thread.
		dir, target := t.TempDir(), filepath.Join(podDir(t), "0")
		if tt.file != "" {
			write(t, filepath.Join(dir, tt.file), "x")
		}
		if tt.link != "" {
			link(t, tt.link, filepath.Join(dir, "l"))
		}
		err := volume.Mounter{}.Bind(t.Context(), dir, tt.sub, target, 0)
		if tt.fails != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("%s: error is %v, want %q", tt.name, err, tt.fails)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if info, err := os.Stat(target); err == nil && info.IsDir() && tt.want != "" {
			target = filepath.Join(target, "f")
		}
		if tt.want != "" && read(t, target) != tt.want {
			t.Errorf("%s: the target holds %q, want %q", tt.name, read(t, target), tt.want)
		}
	}
}

// TestKernelMadeDirectoriesHaveTheModeOfTheVolume whatever the umask.
func TestKernelMadeDirectoriesHaveTheModeOfTheVolume(t *testing.T) {
	inMountNamespace(t)
	dir := t.TempDir()
	mode := os.ModeSetgid | 0o775
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(podDir(t), "0")
	if err := (volume.Mounter{}).Bind(t.Context(), dir, "new/deep", target, 0); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir + "/new", dir + "/new/deep", target} {
		info, err := os.Stat(path)
		if err != nil || info.Mode() != mode|os.ModeDir {
			t.Errorf("%s is %v (%v), want %v", path, info.Mode(), err, mode)
		}
	}
}

// TestKernelLinkTurnedWhileBinding lets a container turn a part of the path into a link
// to the outside all the time: what is bound is never from there.
func TestKernelLinkTurnedWhileBinding(t *testing.T) {
	inMountNamespace(t)
	outside, dir, targets := t.TempDir(), t.TempDir(), podDir(t)
	write(t, filepath.Join(outside, "f"), "secret")
	write(t, filepath.Join(dir, "good", "f"), "good")
	link(t, outside, filepath.Join(dir, "bad"))
	link(t, "good", filepath.Join(dir, "d"))
	stop := make(chan struct{})
	var turning sync.WaitGroup
	turning.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			_ = unix.Renameat2(unix.AT_FDCWD, dir+"/d", unix.AT_FDCWD, dir+"/bad", unix.RENAME_EXCHANGE)
		}
	})
	defer turning.Wait()
	defer close(stop)
	bound := 0
	for range 500 {
		target := filepath.Join(targets, "t")
		if err := (volume.Mounter{}).Bind(t.Context(), dir, "d/f", target, 0); err != nil {
			continue
		}
		bound++
		if got := read(t, target); got != "good" {
			t.Fatalf("the target holds %q", got)
		}
	}
	if bound == 0 {
		t.Error("nothing was ever bound")
	}
}

func TestKernelMemory(t *testing.T) {
	inMountNamespace(t)
	var m volume.Mounter
	dir := filepath.Join(t.TempDir(), "volumes/cache")
	for range 2 { // a second time, what is in it stays
		if err := m.Memory(t.Context(), dir, 1<<20, 0o777|os.ModeSticky); err != nil {
			t.Fatal(err)
		}
	}
	if got := mountsBelow(t, dir); len(got) != 1 {
		t.Errorf("mounts are %v, want one", got)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode() != os.ModeDir|os.ModeSticky|0o777 {
		t.Errorf("mode is %v (%v)", info.Mode(), err)
	}
	if err := os.WriteFile(filepath.Join(dir, "big"), make([]byte, 2<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("writing more than the size: %v, want no space left", err)
	}
	if err := m.Unmount(t.Context(), filepath.Dir(dir)); err != nil {
		t.Error(err)
	}
	if left := mountsBelow(t, dir); len(left) > 0 {
		t.Errorf("%v stay mounted", left)
	}
}
