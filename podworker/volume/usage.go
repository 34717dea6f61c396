//go:build linux

package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

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
	// Memory: it is a file system of its own in memory, not on the disk of the node. A
	// directory on a node that has all in memory is not.
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
// disk. What is mounted inside of one does not count, and a file that goes or is moved
// meanwhile may or may not. Volumes that could not be measured are left out and named in the error beside the
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
		case errors.Is(err, fs.ErrNotExist): // torn down meanwhile
			continue
		case err != nil:
			errs = append(errs, fmt.Errorf("measure volume %s: %w", v.name, err))
			continue
		}
		u.Volume, u.EmptyDir = v.name, v.plugin == emptyDirPlugin
		out = append(out, u)
	}
	return out, errors.Join(errs...)
}

// usage measures one directory. One that is in memory because all of the node's directory is
// has no limit of its own there, and counts as any other.
func usage(ctx context.Context, dir string) (Usage, error) {
	var fsType unix.Statfs_t
	if err := unix.Statfs(dir, &fsType); err != nil {
		return Usage{}, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	mounted, err := isMountPoint(dir)
	if err != nil {
		return Usage{}, err
	}
	if mounted && fsType.Type == unix.TMPFS_MAGIC {
		used := int64(fsType.Blocks-fsType.Bfree) * fsType.Bsize                                                          //nolint:gosec // no file system is that large
		return Usage{Memory: true, Bytes: used, Inodes: int64(fsType.Files - fsType.Ffree), Space: spaceOf(&fsType)}, nil //nolint:gosec // nor has it that many files
	}
	base, err := openBase(dir)
	if err != nil {
		return Usage{}, err
	}
	defer base.Close()
	c := count{links: map[fileID]bool{}}
	w := walk{op: "measure", visit: func(in int, name string) (int, error) {
		if err := ctx.Err(); err != nil {
			return none, err
		}
		return c.file(in, name)
	}}
	if err := w.run(base, "."); err != nil {
		return Usage{}, err
	}
	memory := mounted && fsType.Type == unix.HUGETLBFS_MAGIC
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
	links         map[fileID]bool // files with several names
	bytes, inodes int64
}

// blockSize is the unit of stx_blocks, statx(2).
const blockSize = 512

// file counts a file in an open directory, and opens it if it is a directory. Something may
// be in its place each time that it is looked for: then what is there is left out, and the
// rest of the volume counts all the same.
func (c *count) file(dir int, name string) (int, error) {
	var st unix.Statx_t
	err := unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS, &st)
	if err != nil {
		return none, unlessGone(err)
	}
	if name != "." && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return none, nil
	}
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if st.Nlink > 1 && !isDir {
		id := fileID{unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino}
		if c.links[id] {
			return none, nil
		}
		c.links[id] = true
	}
	c.bytes += int64(st.Blocks) * blockSize //nolint:gosec // no file is that large
	c.inodes++
	if !isDir {
		return none, nil
	}
	fd, err := openHere(dir, name)
	if err != nil && !errors.Is(err, unix.EXDEV) {
		return none, unlessGone(err)
	}
	return fd, nil
}
