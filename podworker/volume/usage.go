//go:build linux

package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
)

// Usage is what a volume of a pod takes up.
type Usage struct {
	// Volume is the name of the volume in the pod.
	Volume string
	// EmptyDir: it is an emptyDir, whose sizeLimit is to be enforced; else it holds files
	// that show objects.
	EmptyDir bool
	// Memory: it is in memory, not on disk.
	Memory bool
	// Bytes and Inodes are what it takes up; a file with several names counts once.
	Bytes, Inodes int64
	// Space is that of the file system it is on; the zero value: not known.
	Space Space
}

// Space is that of a file system, in bytes and inodes: all there is, and what is left to
// those who are not root.
type Space struct {
	Size, Available    int64
	Inodes, InodesFree int64
}

// Usage returns what the volumes of a pod that a Manager keeps take up, from what is on
// disk. What is mounted inside of one does not count, and a file that goes meanwhile may or
// may not. Volumes that could not be measured are left out and named in the error beside the
// others.
func (m *Manager) Usage(ctx context.Context, uid types.UID) ([]Usage, error) {
	if !isElement(uid) {
		return nil, nil
	}
	volumes, err := m.dirs.onDisk(uid)
	if err != nil {
		return nil, err
	}
	var out []Usage
	var errs []error
	for _, v := range volumes {
		if !isOwn(v.plugin) {
			continue
		}
		u, err := usage(ctx, m.dirs.volume(uid, v.plugin, v.name))
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			errs = append(errs, fmt.Errorf("measure volume %s: %w", v.name, err))
			continue
		}
		u.Volume, u.EmptyDir = v.name, v.plugin == emptyDirPlugin
		out = append(out, u)
	}
	return out, errors.Join(errs...)
}

// usage measures one directory.
func usage(ctx context.Context, dir string) (Usage, error) {
	var fsType unix.Statfs_t
	if err := unix.Statfs(dir, &fsType); err != nil {
		return Usage{}, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	memory := fsType.Type == unix.TMPFS_MAGIC || fsType.Type == unix.HUGETLBFS_MAGIC
	if mounted, err := isMountPoint(dir); err == nil && mounted && fsType.Type == unix.TMPFS_MAGIC {
		used := int64(fsType.Blocks-fsType.Bfree) * fsType.Bsize                                                          //nolint:gosec // no file system is that large
		return Usage{Memory: true, Bytes: used, Inodes: int64(fsType.Files - fsType.Ffree), Space: spaceOf(&fsType)}, nil //nolint:gosec // nor has it that many files
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Usage{}, err
	}
	defer func() { _ = root.Close() }()
	c := count{root: root, seen: map[uint64]bool{}}
	info, err := root.Stat(".")
	if err != nil {
		return Usage{}, err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		c.device = st.Dev
	}
	if err := c.entry(ctx, "."); err != nil {
		return Usage{}, err
	}
	return Usage{Memory: memory, Bytes: c.bytes, Inodes: c.inodes, Space: spaceOf(&fsType)}, nil
}

func spaceOf(st *unix.Statfs_t) Space {
	return Space{
		Size:       int64(st.Blocks) * st.Bsize, //nolint:gosec // no file system is that large
		Available:  int64(st.Bavail) * st.Bsize, //nolint:gosec // as above
		Inodes:     int64(st.Files),             //nolint:gosec // as above
		InodesFree: int64(st.Ffree),             //nolint:gosec // as above
	}
}

// count adds up what is in a tree.
type count struct {
	root          *os.Root
	device        uint64
	seen          map[uint64]bool // files with several names
	bytes, inodes int64
}

// blockSize is the unit of st_blocks, inode(7).
const blockSize = 512

func (c *count) entry(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	info, err := c.root.Lstat(name)
	if err != nil {
		return unlessMissing(err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Dev != c.device {
		return nil
	}
	if st.Nlink > 1 && !info.IsDir() {
		if c.seen[st.Ino] {
			return nil
		}
		c.seen[st.Ino] = true
	}
	c.bytes += st.Blocks * blockSize
	c.inodes++
	if !info.IsDir() {
		return nil
	}
	return c.dir(ctx, name)
}

func (c *count) dir(ctx context.Context, name string) error {
	f, err := c.root.Open(name)
	if err != nil {
		return unlessMissing(err)
	}
	defer f.Close()
	for {
		const batch = 1024
		entries, err := f.ReadDir(batch)
		for _, e := range entries {
			if err := c.entry(ctx, filepath.Join(name, e.Name())); err != nil {
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
