package allocatable

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxCPU bounds the numbers of CPUs. Linux can be built for 8192 of them
// (CONFIG_NR_CPUS in arch/x86/Kconfig).
const maxCPU = 1<<16 - 1

// ParseCPUs reads a list of CPUs like "0-3,8", as the kernel and the field
// reservedSystemCPUs write it
// (https://man7.org/linux/man-pages/man7/cpuset.7.html, "List format"). It returns
// them in order, each once; no CPUs for an empty string.
func ParseCPUs(s string) ([]int, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return nil, nil
	}
	var cpus []int
	for part := range strings.SplitSeq(s, ",") {
		first, last, err := parseRange(part)
		if err != nil {
			return nil, fmt.Errorf("list of CPUs %q: %w", s, err)
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, cpu)
		}
		if len(cpus) > maxCPU {
			slices.Sort(cpus)
			cpus = slices.Compact(cpus)
		}
	}
	slices.Sort(cpus)
	return slices.Compact(cpus), nil
}

func parseRange(s string) (first, last int, err error) {
	from, to, isRange := strings.Cut(s, "-")
	if !isRange {
		to = from
	}
	if first, err = parseCPU(from); err != nil {
		return 0, 0, err
	}
	if last, err = parseCPU(to); err != nil {
		return 0, 0, err
	}
	if last < first {
		return 0, 0, fmt.Errorf("range %s ends before it begins", s)
	}
	return first, last, nil
}

func parseCPU(s string) (int, error) {
	cpu, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q must be the number of a CPU", s)
	}
	if cpu > maxCPU {
		return 0, errors.New("no machine has CPU " + s)
	}
	return int(cpu), nil
}
