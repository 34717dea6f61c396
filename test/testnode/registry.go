package testnode

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// baseDir holds one folder per environment. It is under /var/lib because only
// root writes there, because the path is short enough for unix sockets (107
// bytes), and because it is a disk that overlayfs accepts as its upper layer.
const baseDir = "/var/lib/nodekit-test"

// passable is the mode of the folders: nobody but root may list them, but the users of a
// pod that has users of its own have to reach its files.
const passable = 0o711

const (
	lockFile = "lock" // Locked by the program that owns the environment.
	keepFile = "keep" // Present when the environment outlives its program on purpose.
)

// lockBase makes the base folder and locks it until the file is closed. While it
// is locked no environment is claimed or cleaned by somebody else.
func lockBase(base string) (*os.File, error) {
	for {
		err := os.MkdirAll(base, passable)
		if err == nil {
			err = os.Chmod(base, passable)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("make folder of test nodes: %w", err)
		}
		dir, err := os.Open(base)
		if errors.Is(err, fs.ErrNotExist) {
			continue // A cleaner removed it in between.
		}
		if err != nil {
			return nil, fmt.Errorf("open folder of test nodes: %w", err)
		}
		if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", base, err), dir.Close())
		}
		if sameFile(dir, base) {
			return dir, nil
		}
		dir.Close() // A cleaner removed it while we waited for the lock.
	}
}

// sameFile reports whether the open file is still the one at path.
func sameFile(open *os.File, path string) bool {
	a, errA := open.Stat()
	b, errB := os.Stat(path)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// claim makes the folder of a new environment and locks it. The environment is
// in use until the returned file is closed, which the kernel does for a program
// that dies.
func claim(base, prefix string) (layout, *os.File, error) {
	guard, err := lockBase(base)
	if err != nil {
		return layout{}, nil, err
	}
	defer guard.Close()
	for {
		var random [2]byte
		if _, err := rand.Read(random[:]); err != nil {
			return layout{}, nil, fmt.Errorf("choose a name: %w", err)
		}
		name := prefix + "-" + hex.EncodeToString(random[:])
		lay := layout{name: name, dir: filepath.Join(base, name)}
		err := os.Mkdir(lay.dir, passable)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return layout{}, nil, fmt.Errorf("make folder of test node: %w", err)
		}
		lock, held, err := tryLock(filepath.Join(lay.dir, lockFile))
		if err == nil && !held {
			err = errors.New("somebody else holds its lock")
		}
		if err != nil {
			return layout{}, nil, fmt.Errorf("claim test node %s: %w", name, err)
		}
		return lay, lock, nil
	}
}

// tryLock opens and locks a file; held is false when another program has it.
func tryLock(path string) (lock *os.File, held bool, err error) {
	lock, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, err
	}
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return lock, true, nil
	}
	lock.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, false, nil
	}
	return nil, false, err
}

// Clean removes every environment whose program is gone and returns their names.
// Environments left running on purpose ([Node.Keep]) are removed only when kept
// is [KeptToo]. Environments in use are left alone. With names, only those are
// looked at, and the nodes of a cluster called so.
func Clean(ctx context.Context, kept Kept, names ...string) ([]string, error) {
	return clean(ctx, baseDir, kept, names)
}

// Kept says what [Clean] does with environments that were left running on purpose.
type Kept int

const (
	// KeptStay leaves them.
	KeptStay Kept = iota
	// KeptToo removes them as well.
	KeptToo
)

// String returns the value's name.
func (k Kept) String() string {
	if k == KeptToo {
		return "KeptToo"
	}
	return "KeptStay"
}

func clean(ctx context.Context, base string, kept Kept, only []string) ([]string, error) {
	if _, err := os.Stat(base); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	guard, err := lockBase(base)
	if err != nil {
		return nil, err
	}
	defer guard.Close()
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil, fmt.Errorf("list test nodes: %w", err)
	}
	var (
		names []string
		errs  []error
	)
	for _, entry := range entries {
		if !concerns(only, entry.Name()) {
			continue
		}
		lay := layout{name: entry.Name(), dir: filepath.Join(base, entry.Name())}
		removed, err := cleanOne(ctx, lay, kept)
		if removed {
			names = append(names, lay.name)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("clean test node %s: %w", lay.name, err))
		}
	}
	removeIfEmpty(base)
	return names, errors.Join(errs...)
}

// concerns reports whether an environment is one of those asked for, or part of one.
// Nothing asked for means all.
func concerns(only []string, name string) bool {
	return len(only) == 0 || slices.ContainsFunc(only, func(asked string) bool {
		return name == asked || strings.HasPrefix(name, asked+"-")
	})
}

func cleanOne(ctx context.Context, lay layout, kept Kept) (bool, error) {
	if _, err := os.Stat(filepath.Join(lay.dir, keepFile)); err == nil && kept == KeptStay {
		return false, nil
	}
	lock, held, err := tryLock(filepath.Join(lay.dir, lockFile))
	if err != nil || !held {
		return false, err
	}
	defer lock.Close()
	return true, lay.destroy(ctx)
}

// removeIfEmpty removes the base folder after the last environment, and then the
// folders that containerd made outside of it if nobody else uses them. The base
// folder is locked, so no node can start meanwhile. A folder that is in use is
// not empty and stays; the error carries no news.
func removeIfEmpty(base string) {
	for _, dir := range []string{base, shimSocketDir, filepath.Dir(shimSocketDir), cniCacheDir, filepath.Dir(cniCacheDir)} {
		if err := os.Remove(dir); err != nil && dir == base {
			return
		}
	}
}
