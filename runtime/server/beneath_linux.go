package server

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// errLink is why a path was refused.
var errLink = errors.New("a link is in the way, it is not followed")

// openBeneath opens a file below a folder for reading, without following a link and without
// waiting for the other end of a pipe (openat2(2), Linux 5.6).
func openBeneath(root, path string) (*os.File, error) {
	folder, err := os.Open(root)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	full := filepath.Join(root, path)
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
