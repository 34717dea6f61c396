//go:build linux

package cgroups

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/cgroups"
	v1 "github.com/opencontainers/cgroups/fs"
	v2 "github.com/opencontainers/cgroups/fs2"
)

// governed are the controllers whose limits this package sets.
//
//nolint:gochecknoglobals // a constant table
var governed = []string{"cpu", "cpuset", "memory", "hugetlb", "pids"}

// governs reports whether the hierarchy has any controller this package sets.
func (m *Mount) governs() bool { return slices.ContainsFunc(governed, m.has) }

// dir returns the directory of a group.
func (m *Mount) dir(group string) string { return filepath.Join(m.Path, group) }

// ensure makes a group in a hierarchy, with its parents, and sets the limits of the
// controllers the hierarchy has.
func (m *Mount) ensure(group string, l Limits) error {
	r := m.resources(l)
	if !m.V2 {
		manager, err := v1.NewManager(&cgroups.Cgroup{Resources: r}, m.v1Paths(group))
		if err != nil {
			return err
		}
		if err := manager.Apply(noProcess); err != nil {
			return err
		}
		return manager.Set(r)
	}
	if err := m.makeV2(group); err != nil {
		return err
	}
	manager, err := v2.NewManager(&cgroups.Cgroup{Resources: r}, m.dir(group))
	if err != nil {
		return err
	}
	return manager.Set(r)
}

// noProcess makes a group without putting a process into it.
const noProcess = -1

// v1Paths returns the directory of a group for each governed controller.
func (m *Mount) v1Paths(group string) map[string]string {
	paths := map[string]string{}
	for _, name := range governed {
		if m.has(name) {
			paths[name] = m.dir(group)
		}
	}
	return paths
}

// makeV2 makes a group and its parents, and hands the governed controllers down to
// it. A group at the top can be made only where its parent may have both processes
// and children: in the root of the hierarchy.
func (m *Mount) makeV2(group string) error {
	var enable []string
	for _, name := range governed {
		if m.has(name) {
			enable = append(enable, "+"+name)
		}
	}
	at := m.Path
	for part := range strings.FieldsFuncSeq(group, func(r rune) bool { return r == '/' }) {
		if err := cgroups.WriteFile(at, "cgroup.subtree_control", strings.Join(enable, " ")); err != nil {
			return fmt.Errorf("hand controllers down in %s: %w", at, err)
		}
		at = filepath.Join(at, part)
		if err := os.Mkdir(at, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// dirMode is the mode of groups, as runtimes make them.
const dirMode = 0o755

// resources translates limits for the controllers the hierarchy has.
func (m *Mount) resources(l Limits) *cgroups.Resources {
	r := &cgroups.Resources{SkipDevices: true, SkipFreezeOnSet: true, MemoryCheckBeforeUpdate: true}
	if m.has("cpu") {
		r.CpuQuota, r.CpuPeriod = l.CPUQuota, l.CPUPeriod
		if m.V2 {
			r.CpuWeight = weight(l.CPUShares)
		} else {
			r.CpuShares = l.CPUShares
		}
	}
	if m.has("memory") {
		r.Memory = l.Memory
		if m.V2 && len(l.Unified) > 0 {
			r.Unified = l.Unified
		}
	}
	if m.has("pids") && l.Pids != 0 {
		r.PidsLimit = &l.Pids
	}
	if m.has("hugetlb") && l.HugePages != nil {
		r.HugetlbLimit = hugePageLimits(l.HugePages)
	}
	return r
}

// weight turns cpu.shares, 2 to 262144, into cpu.weight, 1 to 10000, as the kubelet
// and runtimes do (https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/2254-cgroup-v2).
func weight(shares uint64) uint64 {
	if shares == 0 {
		return 0
	}
	shares = min(max(shares, minShares), maxShares)
	return 1 + (shares-minShares)*9999/(maxShares-minShares)
}

// hugePageLimits returns a limit for every size of the machine, 0 for those that are
// not in the list.
func hugePageLimits(limits map[int64]int64) []*cgroups.HugepageLimit {
	byName := map[string]int64{}
	for size, limit := range limits {
		byName[hugePageName(size)] = limit
	}
	var out []*cgroups.HugepageLimit
	for _, name := range cgroups.HugePageSizes() {
		out = append(out, &cgroups.HugepageLimit{Pagesize: name, Limit: uint64(max(byName[name], 0))}) //nolint:gosec // not negative
	}
	return out
}

// hugePageName names a size in bytes as the kernel's files do, 2097152 as 2MB
// (kernel: mm/hugetlb_cgroup.c).
func hugePageName(size int64) string {
	units := []string{"B", "KB", "MB", "GB", "TB", "PB"}
	i := 0
	for ; size >= 1024 && size%1024 == 0 && i < len(units)-1; i++ {
		size /= 1024
	}
	return strconv.FormatInt(size, 10) + units[i]
}
