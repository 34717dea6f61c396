package cni

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// disk is a directory of small files that survives the process and the machine.
type disk interface {
	// Hold locks the directory against other processes, and returns the function that
	// ends it. Any number of holders may share it. Who waits to be alone is not
	// overtaken.
	Hold(ctx context.Context, mode holdMode) (func(), error)
	// Create makes an empty file and locks it. It fails with fs.ErrExist.
	Create(ctx context.Context, name string) (diskFile, error)
	// Open locks an existing file. It fails with fs.ErrNotExist.
	Open(ctx context.Context, name string) (diskFile, error)
	// Peek reads a file without its lock. It reports whether what it read makes no
	// record yet because somebody is at work on it. It fails with fs.ErrNotExist.
	Peek(name string) (data []byte, busy bool, err error)
	// Remove takes a file away, which its caller has open. It may be back after a power
	// cut.
	Remove(name string) error
	// Names lists the files.
	Names() ([]string, error)
}

// diskFile is a file of a disk, locked until Close.
type diskFile interface {
	Read() ([]byte, error)
	// Write puts data at an offset, durable when it returns, like the file's name.
	Write(data []byte, offset int64) error
	// Inherit returns the descriptor whose lock lives on in processes that get it, nil
	// if there is none.
	Inherit() *os.File
	Close()
}

type holdMode int

const (
	together holdMode = unix.LOCK_SH
	alone    holdMode = unix.LOCK_EX
)

const (
	// lockFile is in the state directory; no record's name begins like it.
	lockFile = "@lock"
	// turnFile is locked on the way to lockFile: for a moment by those who share that,
	// and by who is to be alone from before it waits, so that the others line up behind.
	turnFile = "@turn"
	// maxRecord is far above what a network configuration and a result take.
	maxRecord = 16 << 20
)

// folder is a directory of the operating system.
type folder struct {
	dir string
	// patience is how long another process may hold a lock before it counts as stuck.
	patience time.Duration
	// sorted is set when the names have been put right after a power cut.
	sorted *atomic.Bool
}

func newFolder(dir string, patience time.Duration) folder {
	return folder{dir: filepath.Clean(dir), patience: patience, sorted: &atomic.Bool{}}
}

func (f folder) path(name string) string { return filepath.Join(f.dir, name) }

// Hold implements disk. It makes the directory if there is none.
func (f folder) Hold(ctx context.Context, mode holdMode) (func(), error) {
	turn, err := f.hold(ctx, turnFile, mode)
	if err != nil {
		return nil, err
	}
	file, err := f.hold(ctx, lockFile, mode)
	if err != nil {
		turn.Close()
		return nil, err
	}
	if mode == together {
		turn.Close()
	}
	release := func() { file.Close(); turn.Close() }
	if err := f.sortOut(); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// hold opens and locks a file that is there for its lock.
func (f folder) hold(ctx context.Context, name string, mode holdMode) (*os.File, error) {
	file, err := os.OpenFile(f.path(name), os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		if err := f.make(); err != nil {
			return nil, err
		}
		file, err = os.OpenFile(f.path(name), os.O_RDWR|os.O_CREATE, 0o600)
	}
	if err != nil {
		return nil, err
	}
	if err := f.lock(ctx, file, mode); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// make makes the directory, its name durable.
func (f folder) make() error {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	return syncDir(filepath.Dir(f.dir))
}

// Create implements disk. It takes a spare file where there is one.
func (f folder) Create(ctx context.Context, name string) (diskFile, error) {
	for {
		taken, err := f.takeSpare(name)
		if err != nil {
			return nil, err
		}
		var file *os.File
		if taken {
			file, err = f.useSpare(ctx, name)
		} else {
			file, err = f.appear(name)
		}
		if errors.Is(err, errors.ErrUnsupported) {
			file, err = f.makeFile(ctx, name)
		}
		switch {
		case taken && errors.Is(err, os.ErrNotExist):
			continue // another process took it for misnamed
		case !taken && errors.Is(err, os.ErrExist) && f.marked(name):
			continue // another process is about to use it, or was killed
		case err != nil:
			return nil, err
		}
		return &folderFile{file: file, dir: f.dir, fresh: !taken}, nil
	}
}

// useSpare opens and locks a spare file that has the name of a record, and takes its
// mark. It fails with fs.ErrNotExist if the name leads elsewhere by now, and with
// fs.ErrExist if another process has made the record meanwhile.
func (f folder) useSpare(ctx context.Context, name string) (*os.File, error) {
	file, err := os.OpenFile(f.path(name), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	err = f.lock(ctx, file, alone)
	if err == nil && !f.names(name, file) {
		err = fmt.Errorf("%s is removed: %w", file.Name(), os.ErrNotExist)
	}
	var data []byte
	if err == nil {
		data, err = readRecord(file)
	}
	if _, made := recordedName(data); made {
		err = fmt.Errorf("%s: %w", file.Name(), os.ErrExist)
	}
	if err == nil {
		// From here on a plugin may run: without a mark it counts as damaged, not as none.
		_, err = file.WriteAt(make([]byte, len(mark)), 0)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// makeFile makes an empty file and locks it.
func (f folder) makeFile(ctx context.Context, name string) (*os.File, error) {
	file, err := os.OpenFile(f.path(name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.lock(ctx, file, alone); err != nil {
		file.Close()
		return nil, errors.Join(err, os.Remove(f.path(name)))
	}
	return file, nil
}

// appear makes an empty file that is locked before it has its name: who sees it sees
// that somebody is at work. The error is an ErrUnsupported if the file system can't,
// see O_TMPFILE in open(2), and an fs.ErrExist if the name is taken.
func (f folder) appear(name string) (*os.File, error) {
	fd, err := unix.Open(f.dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, unix.EISDIR) {
		err = unix.EOPNOTSUPP // what an old file system makes of the flag
	}
	if err != nil {
		return nil, fmt.Errorf("make a file in %s: %w", f.dir, err)
	}
	file := os.NewFile(uintptr(fd), f.path(name))
	err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		err = unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, f.path(name), unix.AT_SYMLINK_FOLLOW)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("make %s: %w", f.path(name), err)
	}
	return file, nil
}

// Open implements disk. A file that was removed while this one waited is none.
func (f folder) Open(ctx context.Context, name string) (diskFile, error) {
	file, err := os.OpenFile(f.path(name), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := f.lock(ctx, file, alone); err != nil {
		file.Close()
		return nil, err
	}
	if !f.names(name, file) || isSpare(file) {
		file.Close()
		return nil, fmt.Errorf("%s is removed: %w", f.path(name), os.ErrNotExist)
	}
	return &folderFile{file: file, dir: f.dir}, nil
}

// names reports whether a name leads to an open file.
func (f folder) names(name string, file *os.File) bool {
	own, err := file.Stat()
	if err != nil {
		return false
	}
	now, err := os.Lstat(f.path(name))
	return err == nil && os.SameFile(own, now)
}

// Peek implements disk.
func (f folder) Peek(name string) (data []byte, busy bool, err error) {
	file, err := os.OpenFile(f.path(name), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, false, err
	}
	defer file.Close()
	data, err = f.peek(file)
	if _, whole := recordedName(data); err != nil || whole {
		return data, false, err
	}
	// Who writes has the lock; if nobody has, what is there now stays.
	if err := unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		return data, errors.Is(err, syscall.EWOULDBLOCK), nil
	}
	data, err = f.peek(file)
	return data, false, err
}

func (f folder) peek(file *os.File) ([]byte, error) {
	data, err := readRecord(file)
	if err == nil && bytes.HasPrefix(data, []byte(mark)) {
		return nil, fmt.Errorf("%s is removed: %w", file.Name(), os.ErrNotExist)
	}
	return data, err
}

// Names implements disk.
func (f folder) Names() ([]string, error) {
	entries, err := os.ReadDir(f.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		if e.Name()[0] != '@' {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// lock takes the lock of an open file, by flock(2): it belongs to the open file, so
// that a process that inherits the descriptor keeps it when this one is killed.
func (f folder) lock(ctx context.Context, file *os.File, mode holdMode) error {
	deadline := time.Now().Add(f.patience)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := unix.Flock(int(file.Fd()), int(mode)|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("lock %s: %w", file.Name(), err)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: %w for %s; /proc/locks has its number", file.Name(), ErrBusy, f.patience)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%s: %w: %w", file.Name(), ErrBusy, context.Cause(ctx))
		case <-timer.C:
		}
	}
}

// folderFile is an open and locked file.
type folderFile struct {
	file  *os.File
	dir   string
	fresh bool // the name is not durable yet
}

// Read implements diskFile.
func (f *folderFile) Read() ([]byte, error) { return readRecord(f.file) }

func readRecord(file *os.File) ([]byte, error) {
	data, err := io.ReadAll(io.NewSectionReader(file, 0, maxRecord+1))
	if err == nil && len(data) > maxRecord {
		return nil, fmt.Errorf("%s is larger than %d bytes", file.Name(), maxRecord)
	}
	return data, err
}

// Write implements diskFile. The name of a new file becomes durable with the first
// bytes; a spare file has a durable name, if not this one, and sortOut puts it right.
func (f *folderFile) Write(data []byte, offset int64) error {
	if _, err := f.file.WriteAt(data, offset); err != nil {
		return err
	}
	if err := unix.Fdatasync(int(f.file.Fd())); err != nil {
		return fmt.Errorf("sync %s: %w", f.file.Name(), err)
	}
	if !f.fresh {
		return nil
	}
	f.fresh = false
	return syncDir(f.dir)
}

// Inherit implements diskFile.
func (f *folderFile) Inherit() *os.File { return f.file }

// Close implements diskFile. The lock ends even where a process that a plugin left
// behind has inherited it.
func (f *folderFile) Close() {
	_ = unix.Flock(int(f.file.Fd()), unix.LOCK_UN) // closing does it too, where nobody has it
	f.file.Close()
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
