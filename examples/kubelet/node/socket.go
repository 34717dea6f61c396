package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"
)

// maxSocketPath is the longest path of a unix socket, unix(7): 108 bytes with a zero
// at the end.
const maxSocketPath = 107

// listenSocket listens on the unix socket at path, which only the owner may
// connect to. The caller holds the lock of the directory, so a socket that is there
// already is the rest of an earlier process; one that still answers belongs to
// somebody else and is left alone.
//
// The socket is made under another name and renamed, so that it never has wider
// permissions and is never missing.
func listenSocket(ctx context.Context, path string) (net.Listener, error) {
	if err := checkStale(ctx, path); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".sock")
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // an empty directory of our own
	hidden := filepath.Join(dir, "s")
	if len(hidden) > maxSocketPath {
		return nil, fmt.Errorf("listen on %s: the path is too long for a socket; choose a shorter --root-dir", path)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", hidden)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	if ul, ok := l.(*net.UnixListener); ok {
		ul.SetUnlinkOnClose(false) // its name changes
	}
	if err = os.Chmod(hidden, 0o600); err == nil {
		err = os.Rename(hidden, path)
	}
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return &socket{Listener: l, path: path}, nil
}

// socket removes its file when it is closed.
type socket struct {
	net.Listener
	path string
}

// Close ends the listener and removes its file.
func (s *socket) Close() error {
	return errors.Join(s.Listener.Close(), ignoreMissing(os.Remove(s.path)))
}

// ignoreMissing returns nil for a file that is not there.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// checkStale returns an error unless path is free or a socket nobody serves.
func checkStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is not a socket; move it away", path)
	}
	d := net.Dialer{Timeout: time.Second}
	c, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		c.Close()
		return fmt.Errorf("another program serves %s; stop it or choose another --root-dir", path)
	}
	return nil
}
