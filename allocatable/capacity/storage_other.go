//go:build !linux

package capacity

import (
	"errors"
	"fmt"
)

// filesystemSize works on Linux only.
func filesystemSize(path string) (int64, error) {
	return 0, fmt.Errorf("size of the filesystem of %s: %w", path, errors.ErrUnsupported)
}
