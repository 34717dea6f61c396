//go:build linux

package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
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
//
// What is mounted in the directory is given to the group, too, as the kubelet does it:
// runtimes mount volumes with all that is mounted in them, so that it is part of what the
// pod gets to see, as where a driver puts a volume together of several file systems. Only a
// driver or a privileged container can have mounted it there, each of which could have given
// it away itself. What is mounted read-only below the directory stays as it is.
func (Mounter) SetGroup(ctx context.Context, dir string, o Ownership) error {
	base, err := openBase(dir)
	if err != nil {
		return err
	}
	defer base.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(base.Fd()), &st); err != nil {
		return &os.PathError{Op: "fstat", Path: dir, Err: err}
	}
	if o.OnRootMismatch && o.fits(&st) {
		return nil
	}
	g := giver{want: o, report: time.Now().Add(firstProgress)}
	return g.all(ctx, base)
}

// modeBits are the bits of a mode that say who may do what, and how files are made and run.
const modeBits = unix.S_ISUID | unix.S_ISGID | unix.S_ISVTX | 0o777

func isDirectory(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFDIR }

// modeOf returns the mode of a file after it was given to the group.
func (o *Ownership) modeOf(st *unix.Stat_t) uint32 {
	const (
		readers = 0o440
		writers = 0o660
		enter   = 0o110
	)
	mode := st.Mode & modeBits
	if o.ReadOnly {
		mode |= readers
	} else {
		mode |= writers
	}
	if isDirectory(st) {
		mode |= enter | unix.S_ISGID
	}
	return mode
}

// fits reports whether a directory is as it is to be.
func (o *Ownership) fits(st *unix.Stat_t) bool {
	return int64(st.Gid) == o.Group && o.modeOf(st) == st.Mode&modeBits
}

// giver is one call of SetGroup. What it gives away it holds open: what else comes by that
// name meanwhile is not touched.
type giver struct {
	want   Ownership
	done   int
	report time.Time
}

// all gives a directory and all in it to the group.
func (g *giver) all(ctx context.Context, dir *os.File) error {
	w := walk{op: "give to the group", leave: g.directory, visit: func(in int, name string) (int, error) {
		if err := ctx.Err(); err != nil {
			return none, err
		}
		return g.file(in, name)
	}}
	return w.run(dir, top)
}

// top is the name of the volume's own directory in a walk: that directory has to be writable.
const top = "."

// file gives a file in an open directory to the group, or opens it if it is a directory: its
// turn comes after all in it.
func (g *giver) file(dir int, name string) (int, error) {
	fd, err := again(func() (int, error) {
		return unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return none, unlessGone(err)
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	switch err := unix.Fstat(fd, &st); {
	case err != nil:
		return none, err
	case !isDirectory(&st):
		return none, unlessReadOnly(g.give(fd, &st))
	}
	sub, err := openIn(fd, ".", 0)
	return sub, unlessGone(err)
}

// directory gives a directory to the group.
func (g *giver) directory(_, dir int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return err
	}
	err := g.give(dir, &st)
	if name == top {
		return err
	}
	return unlessReadOnly(err)
}

// unlessReadOnly takes what cannot be changed as it is.
func unlessReadOnly(err error) error {
	if errors.Is(err, unix.EROFS) {
		return nil
	}
	return err
}

// give gives an open file to the group. What a link leads to has its own mode.
func (g *giver) give(fd int, st *unix.Stat_t) error {
	err := unix.Fchownat(fd, "", -1, int(g.want.Group), unix.AT_EMPTY_PATH)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFLNK {
		// fchmod(2) takes no descriptor of a path.
		err = unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), g.want.modeOf(st))
	}
	g.done++
	if now := time.Now(); g.want.Progress != nil && now.After(g.report) {
		g.want.Progress(g.done)
		g.report = now.Add(nextProgress)
	}
	return err
}
