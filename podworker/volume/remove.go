//go:build linux

package volume

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// errMounted says that something cannot be removed because what is mounted there is not
// the manager's.
var errMounted = errors.New("a file system is mounted there")

// removeTree removes name and all below it from a directory. It follows no link and enters
// no mount: the kernel refuses both (openat2(2), RESOLVE_NO_XDEV).
func removeTree(dir, name string) error {
	parent, err := openBase(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.Close()
	return removeIn(parent, name)
}

// removeIn is removeTree in an open directory.
func removeIn(parent *os.File, name string) error {
	path := filepath.Join(parent.Name(), name)
	err := unix.Unlinkat(int(parent.Fd()), name, 0)
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("remove %s: %w", path, errMounted)
	case !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM):
		return &os.PathError{Op: "remove", Path: path, Err: err}
	}
	if err := removeContent(parent, name); err != nil {
		return err
	}
	err = unix.Unlinkat(int(parent.Fd()), name, unix.AT_REMOVEDIR)
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("remove %s: %w", path, errMounted)
	}
	return &os.PathError{Op: "remove", Path: path, Err: err}
}

// removeContent removes all that is in a directory.
func removeContent(parent *os.File, name string) error {
	dir, err := openHere(parent, name)
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		const batch = 1024
		entries, err := dir.Readdirnames(batch)
		for _, e := range entries {
			if err := removeIn(dir, e); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// openHere opens a directory that is in an open one, not through a link and on the same
// mount.
func openHere(parent *os.File, name string) (*os.File, error) {
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	}
	path := filepath.Join(parent.Name(), name)
	fd, err := unix.Openat2(int(parent.Fd()), name, &how)
	switch {
	case err == nil:
		return os.NewFile(uintptr(fd), path), nil
	case errors.Is(err, unix.EXDEV):
		return nil, fmt.Errorf("remove %s: %w", path, errMounted)
	}
	return nil, &os.PathError{Op: "openat2", Path: path, Err: err}
}

// removePlaces removes a tree of directories and empty files, which things were bound to.
// It removes no file that holds something.
func removePlaces(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.IsDir() {
			err = removePlaces(path)
		} else {
			err = removeEmptyFile(path)
		}
		if err != nil {
			return err
		}
	}
	return removeDir(dir)
}

func removeEmptyFile(path string) error {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case info.Mode().IsRegular() && info.Size() == 0:
		return os.Remove(path)
	}
	return &os.PathError{Op: "remove", Path: path, Err: errors.New("it is no place that something was bound to")}
}

// removeDir removes an empty directory. One that is not there is no error.
func removeDir(dir string) error {
	if err := os.Remove(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
