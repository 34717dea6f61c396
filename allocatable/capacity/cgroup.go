package capacity

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// CgroupMode says which kinds of control groups are mounted.
type CgroupMode uint8

// The modes. Hybrid is both: version 1 with the controllers, version 2 beside it.
const (
	NoCgroups CgroupMode = iota
	CgroupV1
	CgroupHybrid
	CgroupV2
)

// String returns "none", "v1", "hybrid" or "v2".
func (m CgroupMode) String() string {
	switch m {
	case NoCgroups:
		return "none"
	case CgroupV1:
		return "v1"
	case CgroupHybrid:
		return "hybrid"
	case CgroupV2:
		return "v2"
	}
	return fmt.Sprintf("cgroup mode %d", uint8(m))
}

// Cgroups says where control groups are mounted.
type Cgroups struct {
	Mode CgroupMode
	// Unified is where version 2 is mounted; "" if it is not.
	Unified string
	// Controllers tells for each controller, like "memory", where the hierarchy is
	// mounted that has it. A controller of version 1 that is mounted twice has its
	// first place.
	Controllers map[string]string
}

// readCgroups reads the mounts of this process
// (https://docs.kernel.org/filesystems/proc.html, mountinfo).
func readCgroups(t tree) (Cgroups, error) {
	text, err := t.optional("/proc/self/mountinfo")
	if err != nil {
		return Cgroups{}, err
	}
	c := Cgroups{Controllers: map[string]string{}}
	v1 := false
	for line := range strings.Lines(text) {
		m, ok := parseMount(line)
		switch {
		case !ok:
		case m.fstype == "cgroup":
			v1 = true
			c.addV1(m)
		case m.fstype == "cgroup2" && c.Unified == "":
			c.Unified = m.point
		}
	}
	if c.Unified != "" {
		controllers, err := t.optional(path.Join(c.Unified, "cgroup.controllers"))
		if err != nil {
			return Cgroups{}, err
		}
		for name := range strings.FieldsSeq(controllers) {
			c.Controllers[name] = c.Unified
		}
	}
	c.Mode = modeOf(v1, c.Unified != "")
	return c, nil
}

func modeOf(v1, v2 bool) CgroupMode {
	switch {
	case v1 && v2:
		return CgroupHybrid
	case v1:
		return CgroupV1
	case v2:
		return CgroupV2
	}
	return NoCgroups
}

// addV1 takes the controllers out of the options of the mount, which also tell
// how it is mounted (cgroups(7)).
func (c *Cgroups) addV1(m mount) {
	for option := range strings.SplitSeq(m.options, ",") {
		switch option {
		case "", "rw", "ro", "xattr", "noprefix", "clone_children", "none", "all":
			continue
		}
		if _, ok := c.Controllers[option]; ok || strings.Contains(option, "=") {
			continue
		}
		c.Controllers[option] = m.point
	}
}

// mount is what a line of mountinfo says of a filesystem.
type mount struct{ point, fstype, options string }

// parseMount splits "36 35 98:0 /root /point rw,noatime master:1 - ext4 /dev/sda
// rw". Optional fields end with the dash.
func parseMount(line string) (mount, bool) {
	before, after, found := strings.Cut(strings.TrimSpace(line), " - ")
	own, super := strings.Fields(before), strings.Fields(after)
	if !found || len(own) < 6 || len(super) < 3 {
		return mount{}, false
	}
	return mount{point: unescape(own[4]), fstype: super[0], options: super[len(super)-1]}, true
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
