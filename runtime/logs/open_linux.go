package logs

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// resolve keeps a path below the folder it starts in, and refuses links (openat2(2),
// Linux 5.6).
const resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// openBeneath opens the folder at path below root.
func openBeneath(root, path string) (*os.File, error) {
	top, err := os.Open(root)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	return openat(top, path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
}

// openIn opens a file of the folder for reading.
func openIn(folder *os.File, name string) (*os.File, error) {
	return openat(folder, name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
}

// createIn makes a file of the folder that must not be there.
func createIn(folder *os.File, name string) (*os.File, error) {
	return openat(folder, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o640)
}

func openat(folder *os.File, path string, flags int, mode uint64) (*os.File, error) {
	how := unix.OpenHow{Flags: uint64(flags) | unix.O_CLOEXEC, Mode: mode, Resolve: resolve}
	full := filepath.Join(folder.Name(), path)
	for {
		fd, err := unix.Openat2(int(folder.Fd()), path, &how)
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), full), nil
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			// EAGAIN: a rename elsewhere in the system came between.
		case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
			return nil, &os.PathError{Op: "open", Path: full, Err: errLink}
		default:
			return nil, &os.PathError{Op: "open", Path: full, Err: err}
		}
	}
}

// errLink is why a path was refused.
var errLink = errors.New("a link is in the way, it is not followed")

// renameIn renames a file of the folder to a name that must be free.
func renameIn(folder *os.File, from, to string) error {
	fd := int(folder.Fd())
	err := unix.Renameat2(fd, from, fd, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) {
		// A file system without the flag.
		err = unix.Renameat(fd, from, fd, to)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: filepath.Join(folder.Name(), to), Err: err}
	}
	return nil
}

// replaceIn renames a file of the folder, over another if there is one.
func replaceIn(folder *os.File, from, to string) error {
	fd := int(folder.Fd())
	if err := unix.Renameat(fd, from, fd, to); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: filepath.Join(folder.Name(), to), Err: err}
	}
	return nil
}

// removeIn removes a file of the folder.
func removeIn(folder *os.File, name string) error {
	if err := unix.Unlinkat(int(folder.Fd()), name, 0); err != nil {
		return &os.PathError{Op: "remove", Path: filepath.Join(folder.Name(), name), Err: err}
	}
	return nil
}

// infoBeneath looks at the file at path below an open root. A descriptor that can read
// nothing (O_PATH) is all that it takes: this is asked of each log every few seconds.
func infoBeneath(root *os.File, path string) (fileInfo, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: resolve}
	fd, err := unix.Openat2(int(root.Fd()), path, &how)
	if err != nil {
		return fileInfo{}, &os.PathError{Op: "open", Path: filepath.Join(root.Name(), path), Err: err}
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fileInfo{}, &os.PathError{Op: "stat", Path: filepath.Join(root.Name(), path), Err: err}
	}
	return newFileInfo(st), nil
}

// infoIn looks at a file of the folder without opening it.
func infoIn(folder *os.File, name string) (fileInfo, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(folder.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fileInfo{}, &os.PathError{Op: "stat", Path: filepath.Join(folder.Name(), name), Err: err}
	}
	return newFileInfo(st), nil
}

// infoOf looks at an open file.
func infoOf(f *os.File) (fileInfo, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fileInfo{}, &os.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	return newFileInfo(st), nil
}

func newFileInfo(st unix.Stat_t) fileInfo {
	return fileInfo{
		id:       fileID{dev: st.Dev, ino: st.Ino},
		size:     st.Size,
		removed:  st.Nlink == 0,
		regular:  st.Mode&unix.S_IFMT == unix.S_IFREG,
		modified: time.Unix(st.Mtim.Unix()),
	}
}
