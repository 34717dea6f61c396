package stats

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// fileSystem is one, in bytes and inodes; the zero value is one that is not known.
type fileSystem struct {
	known                 bool
	size, available       uint64
	inodes, inodesFree    uint64
	usedBytes, usedInodes uint64
}

// measure measures the file system that a directory is on.
func measure(dir string) (fileSystem, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fileSystem{}, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	block := uint64(st.Bsize) //nolint:gosec // not negative
	return fileSystem{
		known: true, size: st.Blocks * block, available: st.Bavail * block, usedBytes: (st.Blocks - st.Bfree) * block,
		inodes: st.Files, inodesFree: st.Ffree, usedInodes: st.Files - st.Ffree,
	}, nil
}

// taken is what files take up.
type taken struct{ bytes, inodes uint64 }

// blockSize is the unit of st_blocks, inode(7).
const blockSize = 512

// takenBy is what the files in a directory below dir take up, with the directory itself.
// Links are not followed.
func takenBy(dir, name string) (taken, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return taken{}, err
	}
	defer func() { _ = root.Close() }()
	f, err := root.Open(name)
	if err != nil {
		return taken{}, err
	}
	defer f.Close()
	var t taken
	add := func(info fs.FileInfo) {
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			t.bytes += uint64(max(st.Blocks, 0)) * blockSize //nolint:gosec // not negative
			t.inodes++
		}
	}
	self, err := f.Stat()
	if err != nil {
		return taken{}, err
	}
	add(self)
	entries, err := f.ReadDir(-1)
	if err != nil {
		return taken{}, fmt.Errorf("measure %s: %w", filepath.Join(dir, name), err)
	}
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case err == nil:
			add(info)
		case !errors.Is(err, fs.ErrNotExist): // it was rotated away
			return taken{}, err
		}
	}
	return t, nil
}
