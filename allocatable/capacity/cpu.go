package capacity

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nodekit-go/nodekit/allocatable"
)

// readCPUs asks sysfs which CPUs are online, and where it is not mounted, the list
// of processors in procfs
// (https://docs.kernel.org/admin-guide/cputopology.html).
func readCPUs(t tree) ([]int, error) {
	const online = "/sys/devices/system/cpu/online"
	text, err := t.optional(online)
	if err != nil {
		return nil, err
	}
	if text == "" {
		return processors(t)
	}
	cpus, err := allocatable.ParseCPUs(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.path(online), err)
	}
	return cpus, nil
}

// processors reads lines like "processor : 3".
func processors(t tree) ([]int, error) {
	const cpuinfo = "/proc/cpuinfo"
	text, err := t.text(cpuinfo)
	if err != nil {
		return nil, err
	}
	var cpus []int
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(key) != "processor" {
			continue
		}
		cpu, err := strconv.ParseUint(strings.TrimSpace(value), 10, 16)
		if err != nil {
			return nil, fmt.Errorf("%s: %q must be the number of a CPU", t.path(cpuinfo), strings.TrimSpace(value))
		}
		cpus = append(cpus, int(cpu))
	}
	if len(cpus) == 0 {
		return nil, fmt.Errorf("%s names no processor", t.path(cpuinfo))
	}
	slices.Sort(cpus)
	return slices.Compact(cpus), nil
}

// readPIDs returns the smaller one of the two bounds of the kernel: on process
// numbers and on threads
// (https://docs.kernel.org/admin-guide/sysctl/kernel.html, pid_max and threads-max).
func readPIDs(t tree) (int64, error) {
	numbers, err := t.number("/proc/sys/kernel/pid_max")
	if err != nil {
		return 0, err
	}
	threads, err := t.number("/proc/sys/kernel/threads-max")
	if err != nil {
		return 0, err
	}
	if numbers == 0 || threads != 0 && threads < numbers {
		return threads, nil
	}
	return numbers, nil
}
