// Package mountinfo reads /proc/PID/mountinfo as far as control groups need it.
package mountinfo

import (
	"slices"
	"strconv"
	"strings"
)

// Mount is what a line says of a file system.
type Mount struct {
	// Point is where it is mounted.
	Point string
	// Type is its type, such as "cgroup2".
	Type string
	// Options are those of the file system, not of this mount of it.
	Options string
}

// Places of words in a line, proc_pid_mountinfo(5). The optional ones stand before the
// dash: their number is not known.
const (
	point      = 4
	beforeDash = 6 // words that are always there
	afterDash  = 3 // type, source and options
)

// ParseLine reads "36 35 98:0 /root /point rw,noatime master:1 - ext4 /dev/sda rw". It
// reports whether the line is one. A blank separates two words and is part of none: a
// source may be empty.
func ParseLine(line string) (Mount, bool) {
	before, after, found := strings.Cut(strings.Trim(line, " \t\r\n"), " - ")
	own, super := strings.Split(before, " "), strings.Split(after, " ")
	if !found || len(own) < beforeDash || len(super) < afterDash || super[0] == "" {
		return Mount{}, false
	}
	return Mount{Point: unescape(own[point]), Type: super[0], Options: super[len(super)-1]}, true
}

// unescape turns "\040" into a blank, as the kernel writes blanks in paths.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// Controllers returns those of version 1 that the hierarchy has, in order. They stand
// among options that say how it is mounted (cgroups(7)), of which each kernel and
// each security module has more: it is the names of controllers that are known.
func (m Mount) Controllers() []string {
	var out []string
	for option := range strings.SplitSeq(m.Options, ",") {
		if controller(option) {
			out = append(out, option)
		}
	}
	slices.Sort(out)
	return out
}

// controller reports whether an option is the name of a controller
// (kernel: include/linux/cgroup_subsys.h, where io is the blkio of version 1).
func controller(option string) bool {
	switch option {
	case "blkio", "cpu", "cpuacct", "cpuset", "debug", "devices", "dmem", "freezer", "hugetlb",
		"memory", "misc", "net_cls", "net_prio", "perf_event", "pids", "rdma":
		return true
	}
	return false
}
