package capacity

import (
	"fmt"
	"path"
	"strings"

	"github.com/nodekit-go/nodekit/allocatable/internal/mountinfo"
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
		m, ok := mountinfo.ParseLine(line)
		switch {
		case !ok:
		case m.Type == "cgroup":
			v1 = true
			c.addV1(m)
		case m.Type == "cgroup2" && c.Unified == "":
			c.Unified = m.Point
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

// addV1 takes the controllers of a hierarchy that no other one has had.
func (c *Cgroups) addV1(m mountinfo.Mount) {
	for _, name := range m.Controllers() {
		if _, ok := c.Controllers[name]; !ok {
			c.Controllers[name] = m.Point
		}
	}
}
