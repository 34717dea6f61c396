package pluginwatch

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxDepth is how many directories deep sockets are looked for. Plugins use one at most.
const maxDepth = 3

// identity tells a socket from another one that was made at the same path. The time is
// that of the last modification, which for a socket is when it was made.
type identity struct {
	dev, inode     uint64
	seconds, nanos int64
}

// scan returns the sockets in and below a directory. It calls dir for each directory
// below it, before it looks into it, so that what comes later wakes. What cannot be read
// below is left out.
func scan(root string, dir func(string)) (map[string]identity, error) {
	found := map[string]identity{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil && path == root:
			return err
		case err != nil:
			return nil //nolint:nilerr // gone, or not for us
		case path == root:
			return nil
		case strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir():
			if depth(root, path) > maxDepth {
				return fs.SkipDir
			}
			dir(path)
			return nil
		case entry.Type() != fs.ModeSocket:
			return nil
		}
		if id, ok := identify(path); ok {
			found[path] = id
		}
		return nil
	})
	return found, err
}

func depth(root, path string) int {
	return strings.Count(strings.TrimPrefix(path, root), string(os.PathSeparator))
}

// identify returns false for what is no socket any more.
func identify(path string) (identity, bool) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return identity{}, false
	}
	return identity{dev: uint64(st.Dev), inode: st.Ino, seconds: int64(st.Mtim.Sec), nanos: int64(st.Mtim.Nsec)}, true //nolint:unconvert // their sizes differ by architecture
}
