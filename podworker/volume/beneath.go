//go:build linux

package volume

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxFile is the largest file that ReadFile reads, in bytes: what an object of the API
// may hold at most.
const maxFile = 1 << 20

// ReadFile returns the content of a regular file of at most 1 MiB beneath a directory,
// following no link out of it.
func (Mounter) ReadFile(dir, name string) ([]byte, error) {
	root, err := openBase(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := openBeneath(root, name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, &os.PathError{Op: "read", Path: name, Err: errors.New("not a regular file")}
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(raw) > maxFile {
		err = &os.PathError{Op: "read", Path: name, Err: fmt.Errorf("larger than %d bytes", maxFile)}
	}
	return raw, err
}

// openBase opens the directory of a volume. It is the user's or the agent's to name,
// so that links in its path are followed.
func openBase(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// openBeneath opens what a relative path names beneath an open directory. Links are
// followed as long as they stay beneath it. A rename in the way makes the kernel give
// up; then it is tried again.
func openBeneath(dir *os.File, name string, flags uint64) (*os.File, error) {
	const tries = 64
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	for try := 1; ; try++ {
		fd, err := unix.Openat2(int(dir.Fd()), name, &how)
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), filepath.Join(dir.Name(), name)), nil
		case (errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR)) && try < tries:
		case errors.Is(err, unix.EXDEV):
			return nil, &os.PathError{Op: "openat2", Path: name, Err: errors.New("the path leads out of the volume")}
		default:
			return nil, &os.PathError{Op: "openat2", Path: name, Err: err}
		}
	}
}

// openOrMake opens a path beneath a directory, and makes directories of what of it
// does not exist.
func openOrMake(base, sub string, mode fs.FileMode) (*os.File, error) {
	if !filepath.IsLocal(sub) {
		return nil, errors.New("the path has to be relative, without \"..\"")
	}
	root, err := openBase(base)
	if err != nil {
		return nil, err
	}
	f, err := openBeneath(root, sub, unix.O_PATH)
	if !errors.Is(err, unix.ENOENT) {
		_ = root.Close()
		return f, err
	}
	if mode == 0 {
		info, err := root.Stat()
		if err != nil {
			_ = root.Close()
			return nil, err
		}
		mode = info.Mode()
	}
	return makeBeneath(root, strings.Split(filepath.Clean(sub), "/"), mode)
}

// makeBeneath makes the directories of a path beneath an open directory, which it
// closes. Of what exists already, links are followed as long as they stay beneath it;
// a link that leads nowhere is an error, not a place to make something.
func makeBeneath(root *os.File, parts []string, mode fs.FileMode) (*os.File, error) {
	at := root
	for i, part := range parts {
		next, err := openBeneath(root, filepath.Join(parts[:i+1]...), unix.O_PATH|unix.O_DIRECTORY)
		if errors.Is(err, unix.ENOENT) {
			next, err = makeIn(at, part, mode)
		}
		if at != root {
			_ = at.Close()
		}
		if err != nil {
			_ = root.Close()
			return nil, err
		}
		at = next
	}
	return at, root.Close()
}

// makeIn makes a directory in an open one and opens it.
func makeIn(dir *os.File, name string, mode fs.FileMode) (*os.File, error) {
	if err := unix.Mkdirat(int(dir.Fd()), name, uint32(mode.Perm())); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, &os.PathError{Op: "mkdirat", Path: filepath.Join(dir.Name(), name), Err: err}
	}
	f, err := openBeneath(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	// The umask is not to matter, and the group of the parent is to go on.
	if err := f.Chmod(mode & (fs.ModePerm | fs.ModeSetgid | fs.ModeSticky)); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
