package node

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// Files and directories in the root directory.
const (
	instanceFile = "instance-id"
	lockFile     = "kubelet.lock"
	socketFile   = "kubelet.sock"
	memoryFile   = "node-state.json"
	statusDir    = "pod-status"
)

// instanceID is what a valid instance file holds: 128 bits in hexadecimal.
var instanceID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// openRoot makes the root directory if it is not there and locks it against a
// second agent. Closing the file gives the lock back, and so does the kernel when
// the process dies.
func openRoot(root string) (*os.File, error) {
	if err := os.MkdirAll(root, 0o750); err != nil {
		return nil, fmt.Errorf("make root directory: %w", err)
	}
	path := filepath.Join(root, lockFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock of root directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("root directory %s is in use by another kubelet; stop it or choose another --root-dir", root)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// readInstance returns the id that marks what this agent makes, and creates it
// when the root directory has none. A file that is damaged is an error: a new id
// would make strangers of all pods that run.
func readInstance(root string) (string, error) {
	path := filepath.Join(root, instanceFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newInstance(path)
	}
	if err != nil {
		return "", fmt.Errorf("read instance id: %w", err)
	}
	id := strings.TrimSpace(string(data))
	if !instanceID.MatchString(id) {
		return "", fmt.Errorf("instance id in %s is damaged, want 32 hexadecimal digits: "+
			"restore it from the annotation io.nodekit.instance of a sandbox, or remove the file to leave all sandboxes alone", path)
	}
	return id, nil
}

// newInstance makes an id and stores it.
func newInstance(path string) (string, error) {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails
	id := hex.EncodeToString(raw[:])
	if err := writeFile(path, []byte(id+"\n")); err != nil {
		return "", fmt.Errorf("store instance id: %w", err)
	}
	return id, nil
}

// writeFile replaces a file so that after a crash at any point, also of the machine,
// its old or its new content is there.
func writeFile(path string, data []byte) error {
	if err := replaceFile(path, data, true); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// replaceFile replaces a file so that after a crash of the process at any point its
// old or its new content is there. With force that content is on the disk before it
// takes the place of the old.
func replaceFile(path string, data []byte, force bool) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // the first error says it all
		}
	}()
	_, err = f.Write(data)
	if err == nil && force {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}
