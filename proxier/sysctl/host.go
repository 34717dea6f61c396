package sysctl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// Host reads and writes parameters. The zero value is this machine, in the network
// namespace of the process.
type Host struct {
	// Root is the folder that holds proc and sys; empty means "/".
	Root string
}

// Change is a parameter that was changed.
type Change struct {
	Setting
	// Before is the value that it had.
	Before int
}

// Apply writes the settings that are not in force and returns what it changed. One
// that cannot be written does not keep the others; the error joins what went wrong
// with each. A parameter that the kernel does not have is an error of that one.
func (h Host) Apply(settings []Setting) ([]Change, error) {
	var changes []Change
	var errs []error
	for _, s := range settings {
		before, err := h.read(s.Path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if before == s.Value || s.AtLeast && before > s.Value {
			continue
		}
		if err := os.WriteFile(h.path(s.Path), []byte(strconv.Itoa(s.Value)), 0o644); err != nil {
			errs = append(errs, fmt.Errorf("raise or set %s from %d to %d: %w", s.Path, before, s.Value, err))
			continue
		}
		changes = append(changes, Change{Setting: s, Before: before})
	}
	return changes, errors.Join(errs...)
}

func (h Host) path(p string) string {
	root := h.Root
	if root == "" {
		root = "/"
	}
	return filepath.Join(root, p)
}

func (h Host) read(p string) (int, error) {
	data, err := os.ReadFile(h.path(p))
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", p, err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return 0, fmt.Errorf("read %s: %q is not a number", p, strings.TrimSpace(string(data)))
	}
	return n, nil
}

// CPUs returns the number of CPUs that are online, which may be more than a
// container may use: the connection table is the host's.
func (h Host) CPUs() int {
	data, err := os.ReadFile(h.path("sys/devices/system/cpu/online"))
	if err != nil {
		return runtime.NumCPU()
	}
	if n := countList(strings.TrimSpace(string(data))); n > 0 {
		return n
	}
	return runtime.NumCPU()
}

// countList counts a list of CPUs such as "0-3,8"; 0 if it is none
// (Documentation/admin-guide/cputopology.rst).
func countList(s string) int {
	n := 0
	for part := range strings.SplitSeq(s, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		from, err1 := strconv.Atoi(low)
		to, err2 := strconv.Atoi(high)
		if err1 != nil || err2 != nil || from < 0 || to < from || to > 1<<20 {
			return 0
		}
		n += to - from + 1
	}
	return n
}
