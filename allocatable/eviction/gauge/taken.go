//go:build linux

package gauge

import (
	"errors"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/allocatable/eviction"
)

// Taken returns what a directory and all beneath it take of its file system. Links
// are not followed, other file systems not entered, and a file with several names
// counts once. What vanishes meanwhile takes nothing; a directory that is not there
// is an [fs.ErrNotExist].
func Taken(dir string) (eviction.Disk, error) {
	var top unix.Stat_t
	if err := unix.Lstat(dir, &top); err != nil {
		return eviction.Disk{}, &fs.PathError{Op: "lstat", Path: dir, Err: err}
	}
	var sum eviction.Disk
	linked := map[uint64]bool{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			if errors.Is(err, unix.ENOENT) {
				return nil
			}
			return &fs.PathError{Op: "lstat", Path: path, Err: err}
		}
		if st.Dev != top.Dev {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if st.Nlink > 1 && !e.IsDir() {
			if linked[st.Ino] {
				return nil
			}
			linked[st.Ino] = true
		}
		const unit = 512 // of st_blocks, whatever the file system: inode(7)
		sum.Bytes += st.Blocks * unit
		sum.Inodes++
		return nil
	})
	return sum, err
}
