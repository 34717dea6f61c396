package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Attempts returns, in ascending order, which runs of a container have left a log in the
// folder at path below root: ATTEMPT.log, or rotated files of it. The last but one is the
// previous container's, for kubectl logs --previous; the next run may take the number
// after the last one without writing over a log that the runtime forgot. Other files are
// left alone. A folder that is not there has no attempts.
func Attempts(root, path string) ([]uint32, error) {
	// The name of the file plays no role for the folder.
	d, err := openDir(File{Root: root, Path: filepath.Join(path, "0.log")})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.close()
	names, err := d.names()
	if err != nil {
		return nil, fmt.Errorf("look for logs: %w", err)
	}
	var attempts []uint32
	for _, name := range names {
		if n, ok := attemptOf(name); ok {
			attempts = append(attempts, n)
		}
	}
	slices.Sort(attempts)
	return slices.Compact(attempts), nil
}

func attemptOf(name string) (uint32, bool) {
	number, rest, found := strings.Cut(name, ".log")
	n, err := strconv.ParseUint(number, 10, 32)
	if !found || err != nil || strconv.FormatUint(n, 10) != number {
		return 0, false
	}
	if rest == "" {
		return uint32(n), true
	}
	stamp, found := strings.CutPrefix(strings.TrimSuffix(rest, compressedSuffix), ".")
	_, err = time.Parse(stampFormat, stamp)
	return uint32(n), found && err == nil
}
