//go:build linux

package volume_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

// long makes paths cost much more than names.
var long = strings.Repeat("d", 200)

// deep makes directories in each other, all of one name but for the first, which fill gets to
// fill. They are made from the last one outwards, so that no path is long.
func deep(tb testing.TB, top, inner string, levels int, fill func(level int, dir string)) {
	tb.Helper()
	last, around := top+".last", top+".around"
	must(tb, os.Mkdir(last, 0o755))
	fill(levels, last)
	for level := levels - 1; level > 0; level-- {
		must(tb, os.Mkdir(around, 0o755))
		fill(level, around)
		must(tb, os.Rename(last, filepath.Join(around, inner)))
		must(tb, os.Rename(around, last))
	}
	must(tb, os.Rename(last, top))
}

// fewFiles allows the process to open a number of files more than it has open, until the end
// of the test.
func fewFiles(tb testing.TB, more int) {
	tb.Helper()
	var before unix.Rlimit
	must(tb, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	tb.Cleanup(func() { must(tb, unix.Setrlimit(unix.RLIMIT_NOFILE, &before)) })
	must(tb, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(len(list(tb, "/proc/self/fd")) + more), Max: before.Max}))
}

// inLittleMemory does something that is not to take memory for whole paths.
func inLittleMemory(tb testing.TB, what string, do func() error) {
	tb.Helper()
	const most = 32 << 20
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	err := do()
	goruntime.ReadMemStats(&after)
	if err != nil {
		tb.Errorf("%s: %.1000s", what, err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > most {
		tb.Errorf("%s takes %d bytes of memory, want at most %d", what, took, most)
	}
}

// TestKernelDeepDirectories: neither descriptors nor memory run out when a volume with
// directories of any depth is measured, given to a group and removed. There are many others
// in one of them, of which each has to be gone on with.
func TestKernelDeepDirectories(t *testing.T) {
	needsMounts(t)
	const levels, wide, width = 5000, 100, 1500
	dir := root(t)
	must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "")) // it all goes at once, also when the test fails
	m := newManager(t, volume.Config{Root: dir})
	cache := setUp(t, m, pod("1", emptyDir("cache")))["cache"]
	marks, inodes := dir+"/marks", int64(1)
	must(t, os.Mkdir(marks, 0o755))
	// Files have a second name, by which they are found.
	mark := func(path string) {
		write(t, path, "x")
		must(t, os.Link(path, filepath.Join(marks, fmt.Sprint(inodes))))
	}
	deep(t, cache+"/top", long, levels, func(level int, dir string) {
		inodes++
		switch {
		case level == wide:
			for i := range width {
				inodes += 2
				mark(fmt.Sprint(dir, "/", i, "/f"))
			}
		case level == levels, level > wide/2 && level < wide:
			inodes += 2
			mark(dir + "/sub/f")
		}
	})
	fewFiles(t, 60)
	inLittleMemory(t, "measuring", func() error {
		list, err := m.Usage(t.Context(), "1")
		if len(list) != 1 || list[0].Inodes != inodes {
			t.Errorf("volumes take %+v, want %d inodes", list, inodes)
		}
		return err
	})
	inLittleMemory(t, "giving to a group", func() error {
		return volume.Mounter{}.SetGroup(t.Context(), cache, volume.Ownership{Group: 77})
	})
	for _, name := range list(t, marks) {
		if modeAndGroup(t, filepath.Join(marks, name), 0o664, 77); t.Failed() {
			break // there are thousands
		}
	}
	inLittleMemory(t, "removing", func() error { return m.TearDown(t.Context(), "1") })
	if _, err := os.Lstat(cache); !os.IsNotExist(err) {
		t.Errorf("the volume is still there: %v", err)
	}
}

// hooked is a context that calls something each time it is asked whether it has ended.
type hooked struct {
	context.Context
	asked func()
}

func (h hooked) Err() error {
	h.asked()
	return h.Context.Err()
}

// TestKernelErrorFromTheDeep names the place, but not in full.
func TestKernelErrorFromTheDeep(t *testing.T) {
	needsMounts(t)
	const levels = 60
	dir := t.TempDir()
	deep(t, dir+"/top", long, levels, func(int, string) {})
	inner, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := 0
	ctx := hooked{inner, func() {
		if asked++; asked == levels {
			cancel()
		}
	}}
	err := volume.Mounter{}.SetGroup(ctx, dir, volume.Ownership{Group: 77})
	contains(t, err, "give to the group "+dir+"/.../"+long+"/")
	contains(t, err, "/"+long+": context canceled")
	if n := len(err.Error()); n > 5000 || !errors.Is(err, context.Canceled) {
		t.Errorf("the error has %d bytes", n)
	}
	modeAndGroup(t, dir+"/top", fs.ModeDir|0o755, 0)
}

// TestKernelMovedMeanwhile: a directory is moved away, deep in which a walk is. All around it
// is looked at nevertheless.
func TestKernelMovedMeanwhile(t *testing.T) {
	needsMounts(t)
	const levels, files, moved = 100, 20, 50
	for _, tt := range []struct {
		name string
		walk func(ctx context.Context, t *testing.T, m *volume.Manager, cache string) error
	}{
		{"measure", func(ctx context.Context, t *testing.T, m *volume.Manager, _ string) error {
			t.Helper()
			list, err := m.Usage(ctx, "1")
			// What was moved may come into the way again.
			if len(list) != 1 || list[0].Inodes < 1+levels+files || list[0].Inodes > 1+levels+files+levels-moved+1 {
				t.Errorf("the volume takes %+v", list)
			}
			return err
		}},
		{"give to a group", func(ctx context.Context, t *testing.T, _ *volume.Manager, cache string) error {
			t.Helper()
			err := volume.Mounter{}.SetGroup(ctx, cache, volume.Ownership{Group: 77})
			for i, dir := 0, cache+"/top"; i < files; i, dir = i+1, dir+"/d" {
				modeAndGroup(t, dir, fs.ModeDir|fs.ModeSetgid|0o775, 77)
				modeAndGroup(t, dir+"/f", 0o664, 77)
			}
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newManager(t, volume.Config{})
			cache := setUp(t, m, pod("1", emptyDir("cache")))["cache"]
			deep(t, cache+"/top", "d", levels, func(level int, dir string) {
				if level <= files {
					write(t, dir+"/f", "x")
				}
			})
			t.Cleanup(func() { must(t, os.RemoveAll(cache+"/away")) })
			from := cache + "/top" + strings.Repeat("/d", moved-1)
			asked := 0
			ctx := hooked{t.Context(), func() {
				if asked++; asked == moved+files+10 { // it is below what is moved, wherever the files come
					must(t, os.Rename(from, cache+"/away"))
				}
			}}
			if err := tt.walk(ctx, t, m, cache); err != nil {
				t.Errorf("%.1000s", err)
			}
			if _, err := os.Lstat(cache + "/away"); err != nil {
				t.Errorf("nothing was moved: %v", err)
			}
		})
	}
}

// TestKernelExchangedMeanwhile: a container exchanges a directory for a pipe, a link and a
// file all the time. Nothing hangs or fails because of that, the rest is looked at, and nothing
// elsewhere is touched.
func TestKernelExchangedMeanwhile(t *testing.T) {
	needsMounts(t)
	const rounds = 500
	m := newManager(t, volume.Config{})
	cache, outside := setUp(t, m, pod("1", emptyDir("cache")))["cache"], t.TempDir()
	write(t, cache+"/large", strings.Repeat("x", 1<<20))
	write(t, cache+"/dir/f", "x")
	write(t, cache+"/file", "x")
	write(t, outside+"/f", "x")
	must(t, unix.Mkfifo(cache+"/pipe", 0o600))
	link(t, outside, cache+"/link")
	stop := make(chan struct{})
	exchanged := make(chan error, 1)
	go func() { exchanged <- exchange(stop, cache+"/dir", cache+"/pipe", cache+"/link", cache+"/file") }()
	walked := make(chan error, 1)
	go func() {
		for range rounds {
			list, err := m.Usage(t.Context(), "1")
			if err == nil && (len(list) != 1 || list[0].Bytes < 1<<20) {
				err = fmt.Errorf("the volume takes %+v", list)
			}
			if err == nil {
				err = volume.Mounter{}.SetGroup(t.Context(), cache, volume.Ownership{Group: 77})
			}
			if err != nil {
				walked <- err
				return
			}
		}
		walked <- nil
	}()
	select {
	case err := <-walked:
		if err != nil {
			t.Error(err)
		}
		close(stop)
		must(t, <-exchanged)
	case <-time.After(2 * time.Minute):
		t.Error("it hangs")
		close(stop)
		must(t, <-exchanged)
		f, err := os.OpenFile(cache+"/pipe", os.O_RDWR, 0) // what waits for a writer goes on
		must(t, err)
		t.Logf("in the end: %v", <-walked)
		must(t, f.Close())
	}
	modeAndGroup(t, outside+"/f", 0o644, 0)
	modeAndGroup(t, cache+"/large", 0o664, 77)
}

// exchange exchanges a file for others, one after the other, and back.
func exchange(stop <-chan struct{}, path string, others ...string) error {
	for {
		for _, other := range others {
			for range 2 {
				if err := unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE); err != nil {
					return err
				}
			}
		}
		select {
		case <-stop:
			return nil
		default:
		}
	}
}

// TestKernelUsageOnANodeInMemory: where all of the node's directory is in memory, the volumes
// on it have no limits of their own, unlike those that are file systems in memory.
func TestKernelUsageOnANodeInMemory(t *testing.T) {
	needsMounts(t)
	dir := root(t)
	must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, ""))
	m := newManager(t, volume.Config{Root: dir})
	paths := setUp(t, m, pod("1", emptyDir("plain"), source("ram", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Memory"}})))
	write(t, paths["plain"]+"/f", strings.Repeat("x", 1<<20))
	list, err := m.Usage(t.Context(), "1")
	must(t, err)
	if len(list) != 2 {
		t.Fatalf("volumes take %+v, want two", list)
	}
	for _, u := range list {
		if plain := u.Volume == "plain"; u.Memory == plain || plain && (u.Bytes < 1<<20 || u.Inodes != 2) {
			t.Errorf("volume %s takes %+v", u.Volume, u)
		}
	}
}
