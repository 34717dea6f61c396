package cgroupstat

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Hierarchy is a mounted hierarchy of control groups.
type Hierarchy struct {
	// Path is where it is mounted.
	Path string
	// V2 is true for cgroup v2.
	V2 bool
	// Controllers are the ones it governs, such as "memory".
	Controllers []string
}

// has reports whether the hierarchy governs a controller.
func (h *Hierarchy) has(controller string) bool { return slices.Contains(h.Controllers, controller) }

// dir returns the directory of a group.
func (h *Hierarchy) dir(group string) string { return filepath.Join(h.Path, group) }

// Reader reads groups of the hierarchies of a machine.
type Reader struct {
	// The hierarchy of each controller; nil if there is none.
	cpu, time, memory, pids, io *Hierarchy
	// proc is where procfs is mounted.
	proc string
}

// procDir is where procfs is mounted, proc(5).
const procDir = "/proc"

// New returns a Reader of hierarchies, of which one has to govern memory.
func New(hierarchies []Hierarchy) (*Reader, error) { return newWith(hierarchies, procDir) }

// newWith is New with another procfs.
func newWith(hierarchies []Hierarchy, proc string) (*Reader, error) {
	r := &Reader{proc: proc}
	for i := range hierarchies {
		h := hierarchies[i]
		h.Controllers = slices.Clone(h.Controllers)
		set := func(to **Hierarchy, controller string) {
			if *to == nil && h.has(controller) {
				*to = &h
			}
		}
		set(&r.cpu, "cpu")
		set(&r.memory, "memory")
		set(&r.pids, "pids")
		if h.V2 {
			set(&r.time, "cpu")
			set(&r.io, "io")
		} else {
			set(&r.time, "cpuacct")
			set(&r.io, "blkio")
		}
	}
	if r.memory == nil {
		return nil, errors.New("cgroupstat: no hierarchy has the memory controller: mount cgroup v1 or v2")
	}
	return r, nil
}

// Usage reads what a group uses, "/" stands for all processes that the hierarchies see.
// The error is an [fs.ErrNotExist] if there is no such group.
func (r *Reader) Usage(group string) (Usage, error) {
	return r.usage(&page{}, group)
}

func (r *Reader) usage(p *page, group string) (Usage, error) {
	u := Usage{Time: time.Now()}
	var errs []error
	if r.time != nil {
		errs = append(errs, r.readTime(p, group, &u))
	}
	errs = append(errs, r.readMemory(p, group, &u))
	if err := errors.Join(errs...); err != nil {
		return Usage{}, fmt.Errorf("read control group %s: %w", group, err)
	}
	return u, nil
}

// Detail reads all there is to know of a group.
func (r *Reader) Detail(group string) (Detail, error) {
	p := &page{}
	u, err := r.usage(p, group)
	if err != nil {
		return Detail{}, err
	}
	d := Detail{Usage: u, Quota: -1, MaxThreads: Unlimited}
	errs := []error{r.readCPU(p, group, &d), r.readExtremes(p, group, &d.Extremes), r.readPids(p, group, &d), r.readDisks(p, group, &d)}
	if err := errors.Join(errs...); err != nil {
		return Detail{}, fmt.Errorf("read control group %s: %w", group, err)
	}
	return d, nil
}

// Made returns when a group was made, as far as the kernel tells: when its directory was last
// changed, which making and removing groups in it may do as well; of the hierarchies the
// earliest. The error is an [fs.ErrNotExist] if there is no such group.
func (r *Reader) Made(group string) (time.Time, error) {
	var made time.Time
	for _, h := range []*Hierarchy{r.memory, r.cpu, r.pids, r.io} {
		if h == nil {
			continue
		}
		info, err := os.Stat(h.dir(group))
		switch {
		case errors.Is(err, fs.ErrNotExist) && h != r.memory:
			continue
		case err != nil:
			return time.Time{}, fmt.Errorf("ask when a control group was made: %w", err)
		case made.IsZero() || info.ModTime().Before(made):
			made = info.ModTime()
		}
	}
	return made, nil
}

// Children returns the groups directly below a group, with their whole names, sorted.
func (r *Reader) Children(group string) ([]string, error) {
	entries, err := os.ReadDir(r.memory.dir(group))
	if err != nil {
		return nil, fmt.Errorf("list control groups: %w", err)
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, path.Join(group, e.Name()))
		}
	}
	return out, nil
}

// Processes returns the processes that are in a group itself, not in those below it.
func (r *Reader) Processes(group string) ([]int, error) {
	raw, err := readAll(filepath.Join(r.memory.dir(group), "cgroup.procs"))
	if err != nil {
		return nil, fmt.Errorf("list the processes of a control group: %w", err)
	}
	var out []int
	for line := range strings.Lines(string(raw)) {
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("list the processes of control group %s: %w", group, err)
		}
		out = append(out, pid)
	}
	return out, nil
}

// Of returns the group that a process is in, as the hierarchy with the memory controller
// has it.
func (r *Reader) Of(pid int) (string, error) {
	name := filepath.Join(r.proc, strconv.Itoa(pid), "cgroup")
	raw, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("find the control group of a process: %w", err)
	}
	// Lines are "7:memory:/group", with v2 "0::/group", cgroups(7).
	for line := range strings.Lines(string(raw)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if r.memory.V2 && parts[0] == "0" || !r.memory.V2 && slices.Contains(strings.Split(parts[1], ","), "memory") {
			return parts[2], nil
		}
	}
	return "", fmt.Errorf("find the control group of process %d: %s does not name it", pid, name)
}

// readAll reads a file of a group.
func readAll(name string) ([]byte, error) {
	raw, err := os.ReadFile(name)
	return raw, gone(err)
}

// gone makes an fs.ErrNotExist of what the kernel says of a file whose group is removed just
// now: ENODEV, by kernfs of those that are open (fs/kernfs/file.c).
func gone(err error) error {
	if errors.Is(err, syscall.ENODEV) {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}

// ignoreGone is nil for a file that is not there.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
