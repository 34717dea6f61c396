package testnode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Limits is what the kernel lets a process use, as its control group says.
type Limits struct {
	// Version is that of the control groups, 1 or 2.
	Version int
	// Path is the control group (of the memory controller), below its hierarchy's root.
	Path string
	// MemoryBytes is the hard limit.
	MemoryBytes int64
	// CPUWeight is cpu.shares of version 1, cpu.weight of version 2.
	CPUWeight int64
	// CPUQuota is the processor time in each CPUPeriod.
	CPUQuota, CPUPeriod time.Duration
}

// ReadLimits reads the limits of a process from its control groups.
func ReadLimits(pid int) (Limits, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return Limits{}, fmt.Errorf("find control groups of process %d: %w", pid, err)
	}
	groups := parseCgroups(string(data))
	if groups["memory"] == "" {
		return readLimits2(groups[""])
	}
	limits := Limits{Version: 1, Path: groups["memory"]}
	memory := filepath.Join("/sys/fs/cgroup/memory", groups["memory"])
	cpu := filepath.Join("/sys/fs/cgroup/cpu", groups["cpu"])
	var quota, period int64
	err = errors.Join(
		readNumbers(filepath.Join(memory, "memory.limit_in_bytes"), &limits.MemoryBytes),
		readNumbers(filepath.Join(cpu, "cpu.shares"), &limits.CPUWeight),
		readNumbers(filepath.Join(cpu, "cpu.cfs_quota_us"), &quota),
		readNumbers(filepath.Join(cpu, "cpu.cfs_period_us"), &period),
	)
	limits.CPUQuota, limits.CPUPeriod = time.Duration(quota)*time.Microsecond, time.Duration(period)*time.Microsecond
	return limits, err
}

func readLimits2(path string) (Limits, error) {
	limits := Limits{Version: 2, Path: path}
	dir := filepath.Join("/sys/fs/cgroup", path)
	var quota, period int64
	err := errors.Join(
		readNumbers(filepath.Join(dir, "memory.max"), &limits.MemoryBytes),
		readNumbers(filepath.Join(dir, "cpu.weight"), &limits.CPUWeight),
		readNumbers(filepath.Join(dir, "cpu.max"), &quota, &period),
	)
	limits.CPUQuota, limits.CPUPeriod = time.Duration(quota)*time.Microsecond, time.Duration(period)*time.Microsecond
	return limits, err
}

// parseCgroups reads /proc/PID/cgroup (cgroups(7)): the path by controller.
func parseCgroups(text string) map[string]string {
	paths := map[string]string{}
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		for controller := range strings.SplitSeq(fields[1], ",") {
			paths[controller] = fields[2]
		}
	}
	return paths
}

// readNumbers reads the numbers of a control file, which are separated by blanks.
func readNumbers(file string, numbers ...*int64) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read limit: %w", err)
	}
	fields := strings.Fields(string(data))
	if len(fields) != len(numbers) {
		return fmt.Errorf("read limit %s: it has %q", file, data)
	}
	for i, field := range fields {
		if *numbers[i], err = strconv.ParseInt(field, 10, 64); err != nil {
			return fmt.Errorf("read limit %s: %w", file, err)
		}
	}
	return nil
}
