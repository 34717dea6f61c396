package capacity

import (
	"fmt"
	"math"
	"math/bits"
	"syscall"
)

// filesystemSize returns the size of the filesystem of a path in bytes: all blocks,
// those reserved for root among them, as the kubelet counts (statfs(2)).
func filesystemSize(path string) (int64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(path, &fs); err != nil {
		return 0, fmt.Errorf("statfs %s: %w", path, err)
	}
	unit := fs.Frsize
	if unit == 0 {
		unit = fs.Bsize
	}
	over, size := bits.Mul64(fs.Blocks, uint64(unit))
	if over != 0 || size > math.MaxInt64 {
		return 0, fmt.Errorf("statfs %s: no filesystem has %d blocks of %d bytes", path, fs.Blocks, unit)
	}
	return int64(size), nil
}
