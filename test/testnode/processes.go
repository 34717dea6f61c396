package testnode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// processes returns the ids of all processes of the node, save our own: those in
// its network namespace (containerd, the shims, programs under test) and those in
// its control groups (the containers). No list of started processes is kept: it
// would be lost in a crash, and ids are used again.
func (l layout) processes() ([]int, error) {
	inCgroups, err := l.cgroupProcesses()
	if err != nil {
		return nil, err
	}
	inNamespace, err := l.namespaceProcesses()
	if err != nil {
		return nil, err
	}
	pids := append(inCgroups, inNamespace...)
	slices.Sort(pids)
	pids = slices.Compact(pids)
	return slices.DeleteFunc(pids, func(pid int) bool { return pid == os.Getpid() || isZombie(pid) }), nil
}

func (l layout) namespaceProcesses() ([]int, error) {
	var want unix.Stat_t
	err := unix.Stat(l.namespace(), &want)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at network namespace %s: %w", l.namespace(), err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		var have unix.Stat_t
		if unix.Stat(filepath.Join("/proc", entry.Name(), "ns/net"), &have) != nil {
			continue // Gone, or a zombie, which has no namespaces.
		}
		if have.Ino == want.Ino && have.Dev == want.Dev {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// isZombie reports whether the process is dead and waits for its parent. It
// holds nothing any more, and only its parent can end it.
func isZombie(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
	}
	// The state follows the command, which is in brackets and may hold any byte.
	_, rest, ok := strings.Cut(string(data[strings.LastIndexByte(string(data), ')')+1:]), " ")
	return ok && (strings.HasPrefix(rest, "Z") || strings.HasPrefix(rest, "X"))
}

func commandLine(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return "gone"
	}
	return strings.TrimSpace(strings.ReplaceAll(string(data), "\x00", " "))
}
