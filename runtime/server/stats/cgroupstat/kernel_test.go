package cgroupstat_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/nodekit-go/nodekit/runtime/server/stats/cgroupstat"
)

// machine are the hierarchies of this machine.
func machine(t *testing.T) []cgroupstat.Hierarchy {
	t.Helper()
	var out []cgroupstat.Hierarchy
	if raw, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return append(out, cgroupstat.Hierarchy{Path: "/sys/fs/cgroup", V2: true, Controllers: strings.Fields(string(raw))})
	}
	for _, name := range []string{"memory", "pids", "cpu", "cpuacct", "blkio"} {
		if _, err := os.Stat("/sys/fs/cgroup/" + name); err == nil {
			out = append(out, cgroupstat.Hierarchy{Path: "/sys/fs/cgroup/" + name, Controllers: []string{name}})
		}
	}
	return out
}

func TestThisMachine(t *testing.T) {
	r, err := cgroupstat.New(machine(t))
	if err != nil && os.Getenv("REQUIRE_KERNEL") == "1" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skipf("no control groups here (REQUIRE_KERNEL=1 makes this a failure): %v", err)
	}
	group, err := r.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	d, err := r.Detail(group)
	if errors.Is(err, fs.ErrNotExist) { // its hierarchy is mounted elsewhere, as in a container
		d, err = r.Detail("/")
	}
	if err != nil {
		t.Fatal(err)
	}
	if d.Memory.Usage == 0 || d.Memory.WorkingSet > d.Memory.Usage {
		t.Errorf("memory of this process's group is %+v", d.Memory)
	}
	if _, err := r.Pressure("/"); err != nil {
		t.Error(err)
	}
}
