//go:build linux

package cgroups

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Usage is what the processes of a control group and of those below it use. What the
// hierarchies do not tell is 0.
type Usage struct {
	// Memory is the working set in bytes: what is charged, without pages of files that
	// were not used for a while. It is what eviction and autoscalers go by.
	Memory int64
	// MemoryLimit is in bytes, or [Unlimited].
	MemoryLimit int64
	// Processes counts threads, too, as the pids controller does.
	Processes int64
	// CPU is the time used since the group was made.
	CPU time.Duration
}

// PodUsage returns what a pod uses. The error is an [fs.ErrNotExist] for a pod without
// a group.
func (t *Tree) PodUsage(uid types.UID) (Usage, error) {
	for _, group := range t.names.places(uid) {
		u, err := t.usage(group)
		if !errors.Is(err, fs.ErrNotExist) {
			return u, err
		}
	}
	return Usage{}, fmt.Errorf("read the usage of pod %s: %w", uid, fs.ErrNotExist)
}

// PodsUsage returns what all pods use together.
func (t *Tree) PodsUsage() (Usage, error) { return t.usage(t.names.path("kubepods")) }

// MachineUsage returns what all processes use that these hierarchies see: those of the
// machine, or of the container that the agent is in. With cgroup v2, the group at the top
// tells no memory; that of the machine stands in for it, from /proc/meminfo.
func (t *Tree) MachineUsage() (Usage, error) { return t.usage("/") }

// usage reads a group in every hierarchy that knows something of it.
func (t *Tree) usage(group string) (Usage, error) {
	u := Usage{MemoryLimit: Unlimited}
	found := false
	for i := range t.cfg.Mounts {
		m := &t.cfg.Mounts[i]
		if !m.has("memory") && !m.has("pids") && !m.has("cpu") && !m.has("cpuacct") {
			continue
		}
		if !exists(m.dir(group)) {
			continue
		}
		found = true
		if err := m.read(group, &u); err != nil {
			return Usage{}, fmt.Errorf("read the usage of control group %s: %w", group, err)
		}
	}
	if !found {
		return Usage{}, fmt.Errorf("read the usage of control group %s: %w", group, fs.ErrNotExist)
	}
	return u, nil
}

// read adds what one hierarchy tells of a group. The group at the top lacks some files.
func (m *Mount) read(group string, u *Usage) error {
	dir := m.dir(group)
	var errs []error
	if m.has("memory") {
		errs = append(errs, m.readMemory(dir, u))
	}
	if m.has("pids") {
		n, err := number(dir, "pids.current")
		u.Processes = n
		errs = append(errs, ignoreGone(err))
	}
	switch {
	case m.V2 && m.has("cpu"):
		usec, err := entry(dir, "cpu.stat", "usage_usec")
		u.CPU = time.Duration(usec) * time.Microsecond
		errs = append(errs, ignoreGone(err))
	case !m.V2 && m.has("cpuacct"):
		ns, err := number(dir, "cpuacct.usage")
		u.CPU = time.Duration(ns)
		errs = append(errs, ignoreGone(err))
	}
	return errors.Join(errs...)
}

// readMemory reads the working set and the limit
// (kernel: Documentation/admin-guide/cgroup-v1/memory.rst, cgroup-v2.rst).
func (m *Mount) readMemory(dir string, u *Usage) error {
	current, limit, inactive := "memory.usage_in_bytes", "memory.limit_in_bytes", "total_inactive_file"
	if m.V2 {
		current, limit, inactive = "memory.current", "memory.max", "inactive_file"
	}
	used, err := number(dir, current)
	if m.V2 && errors.Is(err, fs.ErrNotExist) && dir == filepath.Clean(m.Path) {
		used, err = machineMemory()
	}
	if err != nil {
		return err
	}
	unused, err := entry(dir, "memory.stat", inactive)
	if err != nil {
		return err
	}
	u.Memory = max(used-unused, 0)
	most, err := number(dir, limit)
	if err == nil && most < noLimitV1 {
		u.MemoryLimit = most
	}
	return ignoreGone(err)
}

// noLimitV1 is the least number by which cgroup v1 says that there is no limit: the
// largest one in whole pages, with pages of 64 KiB at most.
const noLimitV1 = 1<<63 - 1<<16

// machineMemory is what the machine uses.
func machineMemory() (int64, error) {
	total, err := entry("/proc", "meminfo", "MemTotal:")
	if err != nil {
		return 0, err
	}
	free, err := entry("/proc", "meminfo", "MemFree:")
	return (total - free) * 1024, err
}

// number reads a file that holds one number; "max" is the largest one.
func number(dir, name string) (int64, error) {
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return 0, err
	}
	s := strings.TrimSpace(string(raw))
	if s == "max" {
		return noLimitV1, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
	}
	return n, nil
}

// entry reads the number behind a key in a file of lines with a key and a number.
func entry(dir, name, key string) (int64, error) {
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(raw) {
		rest, ok := bytes.CutPrefix(line, []byte(key))
		if !ok || len(rest) == 0 || rest[0] != ' ' {
			continue
		}
		number, _, _ := bytes.Cut(bytes.TrimSpace(rest), []byte(" "))
		n, err := strconv.ParseInt(string(number), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s of %s: %w", key, filepath.Join(dir, name), err)
		}
		return n, nil
	}
	return 0, fmt.Errorf("%s has no %s", filepath.Join(dir, name), key)
}
