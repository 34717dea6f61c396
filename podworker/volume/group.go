//go:build linux

package volume

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Ownership says whose a volume is to be: that of the group that a pod names as its
// fsGroup (https://kubernetes.io/docs/tasks/configure-pod-container/security-context/).
type Ownership struct {
	// Group is the group's ID.
	Group int64
	// OnRootMismatch: nothing is done if the directory of the volume is as it is to be.
	OnRootMismatch bool
	// ReadOnly: the group gets the right to read only.
	ReadOnly bool
	// Progress is called with the number of files that were done, after half a minute and
	// then each minute, from the goroutine that works; nil: it is not.
	Progress func(files int)
}

const (
	firstProgress = 30 * time.Second
	nextProgress  = time.Minute
)

// SetGroup gives a directory and all in it to a group: the group may read and write files,
// enter directories and make files in them that are the group's, too. The directory itself
// comes last, so that one that is as it is to be says that all in it are. No link is
// followed out of the directory, and a file that goes meanwhile is no error.
func (Mounter) SetGroup(ctx context.Context, dir string, o Ownership) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	if o.OnRootMismatch && o.fits(info) {
		return nil
	}
	w := groupWalk{root: root, want: o, report: time.Now().Add(firstProgress)}
	return w.dir(ctx, ".", info)
}

// modeOf returns the mode of a file after it was given to the group.
func (o *Ownership) modeOf(info fs.FileInfo) fs.FileMode {
	const (
		readers = 0o440
		writers = 0o660
		enter   = 0o110
	)
	mode := info.Mode() | writers
	if o.ReadOnly {
		mode = info.Mode() | readers
	}
	if info.IsDir() {
		mode |= enter | fs.ModeSetgid
	}
	return mode & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
}

// fits reports whether a directory is as it is to be.
func (o *Ownership) fits(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int64(st.Gid) == o.Group && o.modeOf(info)&^info.Mode() == 0
}

// groupWalk is one call of SetGroup.
type groupWalk struct {
	root   *os.Root
	want   Ownership
	done   int
	report time.Time
}

// dir does what is in a directory, then the directory.
func (w *groupWalk) dir(ctx context.Context, name string, info fs.FileInfo) error {
	f, err := w.root.Open(name)
	if err != nil {
		return unlessMissing(err)
	}
	defer f.Close()
	for {
		const batch = 1024
		entries, err := f.ReadDir(batch)
		for _, e := range entries {
			if err := w.entry(ctx, filepath.Join(name, e.Name())); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return w.give(name, info)
		case err != nil:
			return err
		}
	}
}

func (w *groupWalk) entry(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	info, err := w.root.Lstat(name)
	if err != nil {
		return unlessMissing(err)
	}
	if info.IsDir() {
		return w.dir(ctx, name, info)
	}
	return w.give(name, info)
}

// give gives one file to the group. What a link leads to has its own mode.
func (w *groupWalk) give(name string, info fs.FileInfo) error {
	err := w.root.Lchown(name, -1, int(w.want.Group))
	if err == nil && info.Mode()&fs.ModeSymlink == 0 {
		err = w.root.Chmod(name, w.want.modeOf(info))
	}
	w.done++
	if now := time.Now(); w.want.Progress != nil && now.After(w.report) {
		w.want.Progress(w.done)
		w.report = now.Add(nextProgress)
	}
	return unlessMissing(err)
}
