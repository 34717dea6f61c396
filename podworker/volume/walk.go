//go:build linux

package volume

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// walk visits a file and, if it is a directory, all beneath it. Containers write such trees,
// and go on with it meanwhile: a file is only ever found in an open directory by its own name,
// so that no path leads elsewhere, and however deep a tree is, each level costs a few words
// and system calls, and no descriptor beyond openLevels.
type walk struct {
	// op is what is done, for errors.
	op string
	// visit is told of each file in an open directory. It returns a descriptor, which the walk
	// closes, of a directory that the walk is to go on in, else none.
	visit func(dir int, name string) (fd int, err error)
	// leave is told of each such directory after all in it; nil: nobody is. A directory that is
	// moved away meanwhile may be left out, with what of it was not visited yet.
	leave func(parent, dir int, name string) error
	// removes: what is visited is gone after that, so that a place in a directory means nothing
	// any more when the directory is opened again.
	removes bool

	base   string  // the path of the first level
	levels []level // from where the walk began to where it is; of the first one only a name is visited
	buf    []byte  // for entries of directories
}

// level is a directory on the way to where a walk is.
type level struct {
	name  string // in the directory before
	fd    int    // none: closed for now
	names []string
	read  bool // all names are read
	// The following is known of a directory that is closed for now.
	file fileID
	at   int64 // where to read on
}

// fileID tells a file from all others that there are at the same time.
type fileID struct{ device, inode uint64 }

const (
	// none is no descriptor.
	none = -1
	// openLevels is how many levels stay open. Trees are rarely deeper.
	openLevels = 32
	// direntBuffer is how many bytes of a directory are read at a time.
	direntBuffer = 16 << 10
)

// run visits a file in an open directory, and all beneath it. It ends with the first error.
func (w *walk) run(base *os.File, name string) error {
	w.base, w.buf = base.Name(), make([]byte, direntBuffer)
	w.levels = []level{{fd: int(base.Fd()), names: []string{name}, read: true}}
	defer func() { w.drop(1) }()
	for {
		name, err := w.next()
		switch {
		case err != nil:
		case name != "":
			err = w.enter(name)
		case len(w.levels) == 1:
			return nil
		default:
			err = w.up()
		}
		if err != nil {
			return err
		}
	}
}

// current is the directory where the walk is.
func (w *walk) current() *level { return &w.levels[len(w.levels)-1] }

// next returns a name in the current directory; "" after the last one.
func (w *walk) next() (string, error) {
	l := w.current()
	for len(l.names) == 0 && !l.read {
		n, err := again(func() (int, error) { return unix.ReadDirent(l.fd, w.buf) })
		switch {
		case errors.Is(err, unix.ENOENT): // it was removed
			n = 0
		case err != nil:
			return "", w.failed("", err)
		}
		l.read = n == 0
		_, _, l.names = unix.ParseDirent(w.buf[:n], -1, nil)
	}
	if len(l.names) == 0 {
		return "", nil
	}
	name := l.names[0]
	l.names = l.names[1:]
	return name, nil
}

// enter visits a file in the current directory, which one that is to be gone on in becomes.
func (w *walk) enter(name string) error {
	l := w.current()
	fd, err := w.visit(l.fd, name)
	if err != nil {
		return w.failed(name, err)
	}
	if fd == none {
		return nil
	}
	if len(w.levels) > openLevels {
		err = w.rest(l)
	}
	w.levels = append(w.levels, level{name: name, fd: fd})
	return err
}

// rest closes a directory until the walk comes back to it.
func (w *walk) rest(l *level) error {
	var err error
	if l.file, err = idOf(l.fd); err != nil {
		return w.failed("", err)
	}
	if !w.removes {
		if l.at, err = unix.Seek(l.fd, 0, unix.SEEK_CUR); err != nil {
			return w.failed("", err)
		}
	}
	err = unix.Close(l.fd)
	l.fd = none
	return err
}

// up goes back to the directory before the current one.
func (w *walk) up() error {
	l, parent := w.current(), &w.levels[len(w.levels)-2]
	if parent.fd == none {
		found, err := w.reopen(parent, l.fd)
		switch {
		case err != nil:
			return w.failed("..", err)
		case !found:
			w.drop(openLevels)
			return nil
		}
	}
	if w.leave != nil {
		if err := w.leave(parent.fd, l.fd, l.name); err != nil {
			w.drop(len(w.levels) - 1)
			return w.failed(l.name, err)
		}
	}
	w.drop(len(w.levels) - 1)
	return nil
}

// reopen opens a directory again, from one in it. It is not found if that one has been moved.
func (w *walk) reopen(l *level, child int) (found bool, err error) {
	fd, err := again(func() (int, error) { return unix.Openat(child, "..", openDirectory, 0) })
	if err != nil {
		return false, unlessGone(err)
	}
	id, err := idOf(fd)
	if err == nil && id == l.file {
		if _, err = unix.Seek(fd, l.at, unix.SEEK_SET); err == nil {
			l.fd = fd
			return true, nil
		}
	}
	return false, errors.Join(err, unix.Close(fd))
}

// drop closes all levels but the first ones.
func (w *walk) drop(keep int) {
	for i := keep; i < len(w.levels); i++ {
		if fd := w.levels[i].fd; fd != none {
			_ = unix.Close(fd)
		}
	}
	w.levels = w.levels[:keep]
}

// failed is an error about a file in the current directory. Of a path that is longer than
// paths can be it has the end.
func (w *walk) failed(name string, err error) error {
	const most = 4096 // PATH_MAX of limits.h
	first, size := len(w.levels), len(name)
	for first > 1 && size < most {
		first--
		size += len(w.levels[first].name) + 1
	}
	parts := []string{w.base}
	if first > 1 {
		parts = append(parts, "...")
	}
	for _, l := range w.levels[first:] {
		parts = append(parts, l.name)
	}
	return &os.PathError{Op: w.op, Path: filepath.Join(append(parts, name)...), Err: err}
}

func idOf(fd int) (fileID, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return fileID{st.Dev, st.Ino}, err
}

// again calls what a signal may interrupt.
func again[T any](call func() (T, error)) (T, error) {
	for {
		out, err := call()
		if !errors.Is(err, unix.EINTR) {
			return out, err
		}
	}
}

// openDirectory opens a directory to read it. Anything else is refused at once, also a pipe
// that nobody writes to.
const openDirectory = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC

// openHere opens a directory that is in an open one, not through a link and on the same mount:
// the error of one on another mount is EXDEV.
func openHere(dir int, name string) (int, error) {
	return openIn(dir, name, unix.RESOLVE_NO_XDEV)
}

// openIn is openHere, on any mount but for what resolve says.
func openIn(dir int, name string, resolve uint64) (int, error) {
	how := unix.OpenHow{Flags: openDirectory, Resolve: resolve | unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
	fd, err := again(func() (int, error) { return unix.Openat2(dir, name, &how) })
	if err != nil {
		return none, err
	}
	return fd, nil
}

// unlessGone is err unless it says that a file, or a directory, is not there any more, but
// maybe something else by its name.
func unlessGone(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	return err
}
