//go:build !(linux || darwin || freebsd)

package gc

import (
	"errors"
	"fmt"
)

// usageOf cannot tell here; Config.Usage has to.
func usageOf(path string) (Usage, error) {
	return Usage{}, fmt.Errorf("usage of the file system of %s: %w", path, errors.ErrUnsupported)
}
