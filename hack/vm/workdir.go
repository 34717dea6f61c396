package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// workdirs names the folders of runs.
const workdirs = "nodekit-vm-"

// workdir makes the folder of one run. It is locked while the run lives, so that the
// next run can tell, and remove, what a killed one has left.
func workdir() (dir string, remove func(), err error) {
	if err := sweep(); err != nil {
		return "", nil, fmt.Errorf("remove what an earlier run has left: %w", err)
	}
	dir, err = os.MkdirTemp("", workdirs)
	if err != nil {
		return "", nil, fmt.Errorf("make a folder for the guest: %w", err)
	}
	unlock, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, func() {
		_ = os.RemoveAll(dir)
		unlock()
	}, nil
}

// sweep removes the folders of runs that are no more. One without a lock file is
// just being made.
func sweep() error {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), workdirs+"*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		f, err := os.Open(filepath.Join(dir, "lock"))
		if err != nil {
			continue // made just now, or another user's
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			err = os.RemoveAll(dir)
		}
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
