package leakcheck

import (
	"os"
	"path/filepath"
	"strings"
)

// fdDir lists this process's open files, by proc(5). Where it does not exist there is
// nothing to compare.
const fdDir = "/proc/self/fd"

// files returns what each open descriptor refers to.
func files() map[string]string {
	open := make(map[string]string)
	entries, err := os.ReadDir(fdDir)
	if err != nil {
		return open
	}
	for _, e := range entries {
		// The descriptor of the listing itself is closed by now.
		if target, err := os.Readlink(filepath.Join(fdDir, e.Name())); err == nil {
			open[e.Name()] = target
		}
	}
	return open
}

// newFiles returns what is open now and was not before.
func newFiles(before map[string]string) []string {
	var left []string
	for fd, target := range files() {
		if before[fd] != target && !ofRuntime(target) {
			left = append(left, "file descriptor "+fd+": "+target)
		}
	}
	return left
}

// ofRuntime reports whether the Go runtime keeps such a file open by itself: the
// network poller, and the cgroup's limits for GOMAXPROCS.
func ofRuntime(target string) bool {
	return strings.HasPrefix(target, "anon_inode:[event") ||
		strings.HasPrefix(target, "/sys/fs/cgroup/") || strings.HasPrefix(target, "/proc/")
}
