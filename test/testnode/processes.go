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
// its control groups (the containers). In an adopted namespace others live, too: there
// the programs that the node started, and their children, are known by their
// environment. No list of started processes is kept: it would be lost in a crash, and
// ids are used again.
func (l layout) processes() ([]int, error) {
	inCgroups, err := l.cgroupProcesses()
	if err != nil {
		return nil, err
	}
	others := l.namespaceProcesses
	if _, adopted := l.adoption(); adopted {
		others = l.markedProcesses
	}
	found, err := others()
	if err != nil {
		return nil, err
	}
	pids := append(inCgroups, found...)
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
	return processesWhere(func(dir string) bool {
		var have unix.Stat_t
		// It fails for one that is gone, or a zombie, which has no namespaces.
		return unix.Stat(filepath.Join(dir, "ns/net"), &have) == nil && have.Ino == want.Ino && have.Dev == want.Dev
	})
}

// nameVariable is an environment variable of all programs on a node, and of their
// children: the node's name.
const nameVariable = "NODEKIT_TEST_NODE"

func (l layout) markedProcesses() ([]int, error) {
	mark := nameVariable + "=" + l.name
	return processesWhere(func(dir string) bool {
		data, err := os.ReadFile(filepath.Join(dir, "environ"))
		return err == nil && slices.Contains(strings.Split(string(data), "\x00"), mark)
	})
}

// processesWhere returns the processes whose folder in /proc is right.
func processesWhere(right func(dir string) bool) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err == nil && right(filepath.Join("/proc", entry.Name())) {
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
