//go:build linux || darwin || freebsd

package gc

import (
	"fmt"
	"syscall"
)

// usageOf returns the usage of the file system that holds path. What is reserved for
// root is not available.
func usageOf(path string) (Usage, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return Usage{}, fmt.Errorf("usage of the file system of %s: %w", path, err)
	}
	size := uint64(st.Bsize)
	return Usage{Capacity: uint64(st.Blocks) * size, Available: uint64(max(int64(st.Bavail), 0)) * size}, nil
}
