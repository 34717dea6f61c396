package cgroups

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Mount is one mounted hierarchy of control groups.
type Mount struct {
	// Path is where it is mounted.
	Path string
	// V2 is true for cgroup v2.
	V2 bool
	// Controllers are the ones it governs, such as "memory". Hierarchies of v1 that
	// only name groups have none.
	Controllers []string
}

// has reports whether the hierarchy governs a controller.
func (m *Mount) has(controller string) bool { return slices.Contains(m.Controllers, controller) }

// Mounted returns the hierarchies this process sees.
func Mounted() ([]Mount, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("find control groups: %w", err)
	}
	defer f.Close()
	mounts, err := ParseMounts(f)
	if err != nil {
		return nil, fmt.Errorf("find control groups: %w", err)
	}
	for i := range mounts {
		if !mounts[i].V2 {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(mounts[i].Path, "cgroup.controllers"))
		if err != nil {
			return nil, fmt.Errorf("find control groups: %w", err)
		}
		mounts[i].Controllers = strings.Fields(string(raw))
	}
	return mounts, nil
}

// ParseMounts reads the hierarchies from a file in the format of
// /proc/self/mountinfo, proc_pid_mountinfo(5). Each counts once, where it is mounted
// first. The controllers of v2 are not in that file.
func ParseMounts(mountinfo io.Reader) ([]Mount, error) {
	const point, behindHyphen = 4, 3
	var out []Mount
	lines := bufio.NewScanner(mountinfo)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		hyphen := slices.Index(fields, "-")
		if hyphen <= point || len(fields) <= hyphen+behindHyphen {
			continue
		}
		m := Mount{Path: unescape.Replace(fields[point])}
		switch fields[hyphen+1] {
		case "cgroup2":
			m.V2 = true
		case "cgroup":
			m.Controllers = v1Controllers(fields[hyphen+behindHyphen])
		default:
			continue
		}
		if !slices.ContainsFunc(out, m.same) {
			out = append(out, m)
		}
	}
	return out, lines.Err()
}

// unescape undoes the escapes of mount points.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`) //nolint:gochecknoglobals // a constant table

// same reports whether two mounts show the same hierarchy.
func (m *Mount) same(other Mount) bool {
	switch {
	case m.Path == other.Path:
		return true
	case m.V2 || other.V2:
		return m.V2 && other.V2
	}
	return len(m.Controllers) > 0 && slices.Equal(m.Controllers, other.Controllers)
}

// v1Controllers takes the controllers out of the options of a mount, which also say
// how it is mounted (cgroups(7)).
func v1Controllers(options string) []string {
	var out []string
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "rw", "ro", "xattr", "noprefix", "clone_children", "none", "all", "cpuset_v2_mode":
			continue
		}
		if option != "" && !strings.Contains(option, "=") {
			out = append(out, option)
		}
	}
	slices.Sort(out)
	return out
}
