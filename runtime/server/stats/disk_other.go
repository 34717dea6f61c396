//go:build !linux

package stats

import "errors"

// fileSystem is one that is not known.
type fileSystem struct {
	known                                                      bool
	size, available, inodes, inodesFree, usedBytes, usedInodes uint64
}

// taken is what files take up.
type taken struct{ bytes, inodes uint64 }

func measure(string) (fileSystem, error) { return fileSystem{}, errors.ErrUnsupported }

func takenBy(string, string) (taken, error) { return taken{}, errors.ErrUnsupported }
