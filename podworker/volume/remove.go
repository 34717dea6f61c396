//go:build linux

package volume

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// errMounted says that something cannot be removed because what is mounted there is not
// the manager's.
var errMounted = errors.New("a file system is mounted there")

// removeTree removes name and all below it from a directory, however deep. It follows no link
// and enters no mount: the kernel refuses both (openat2(2), RESOLVE_NO_XDEV).
func removeTree(dir, name string) error {
	base, err := openBase(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer base.Close()
	w := walk{op: "remove", visit: unlinkIn, leave: rmdirIn, removes: true}
	return w.run(base, name)
}

// unlinkIn removes a file from an open directory, or opens it if it is a directory itself.
func unlinkIn(dir int, name string) (int, error) {
	err := unix.Unlinkat(dir, name, 0)
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return none, nil
	case errors.Is(err, unix.EBUSY):
		return none, errMounted
	case !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM):
		return none, err
	}
	fd, openErr := openHere(dir, name)
	switch {
	case openErr == nil:
		return fd, nil
	case errors.Is(openErr, unix.ENOENT):
		return none, nil
	case errors.Is(openErr, unix.EXDEV):
		return none, errMounted
	case unlessGone(openErr) == nil:
		return none, err // it is no directory, and not to be removed
	}
	return none, openErr
}

// rmdirIn removes a directory that is empty now from an open one.
func rmdirIn(parent, _ int, name string) error {
	err := unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EBUSY):
		return errMounted
	}
	return err
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
