package cgroups

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nodekit-go/nodekit/allocatable/internal/mountinfo"
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
func ParseMounts(mounts io.Reader) ([]Mount, error) {
	var out []Mount
	lines := bufio.NewScanner(mounts)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line, ok := mountinfo.ParseLine(lines.Text())
		if !ok {
			continue
		}
		m := Mount{Path: line.Point}
		switch line.Type {
		case "cgroup2":
			m.V2 = true
		case "cgroup":
			m.Controllers = line.Controllers()
		default:
			continue
		}
		if !slices.ContainsFunc(out, m.same) {
			out = append(out, m)
		}
	}
	return out, lines.Err()
}

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
