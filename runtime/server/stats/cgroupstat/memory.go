package cgroupstat

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// readMemory reads memory and swap
// (kernel: Documentation/admin-guide/cgroup-v1/memory.rst, cgroup-v2.rst).
func (r *Reader) readMemory(group string, u *Usage) error {
	dir := r.memory.dir(group)
	if r.memory.V2 {
		return r.readMemoryV2(dir, u)
	}
	return readMemoryV1(dir, u)
}

func readMemoryV1(dir string, u *Usage) error {
	m := &u.Memory
	var err error
	if m.Usage, err = number(dir, "memory.usage_in_bytes"); err != nil {
		return err
	}
	var inactive uint64
	err = table(dir, "memory.stat", func(key string, n uint64) {
		switch key {
		case "total_inactive_file":
			inactive = n
		case "total_rss":
			m.RSS = n
		case "total_cache":
			m.Cache = n
		case "total_mapped_file":
			m.Mapped = n
		case "total_pgfault":
			m.Faults = n
		case "total_pgmajfault":
			m.MajorFaults = n
		case "total_swap":
			u.Swap.Usage = n
		}
	})
	if err != nil {
		return err
	}
	m.WorkingSet = m.Usage - min(inactive, m.Usage)
	if m.Limit, err = number(dir, "memory.limit_in_bytes"); err != nil {
		return err
	}
	u.Swap.Limit = Unlimited
	both, err := number(dir, "memory.memsw.limit_in_bytes")
	if err == nil && both < Unlimited {
		u.Swap.Limit = both - min(m.Limit, both)
	}
	return ignoreGone(err) // a kernel without accounting of swap
}

func (r *Reader) readMemoryV2(dir string, u *Usage) error {
	m := &u.Memory
	m.Limit, u.Swap.Limit = Unlimited, Unlimited
	var inactive uint64
	err := table(dir, "memory.stat", func(key string, n uint64) {
		switch key {
		case "inactive_file":
			inactive = n
		case "anon":
			m.RSS = n
		case "file":
			m.Cache = n
		case "file_mapped":
			m.Mapped = n
		case "pgfault":
			m.Faults = n
		case "pgmajfault":
			m.MajorFaults = n
		}
	})
	if err != nil {
		return err
	}
	m.Usage, err = number(dir, "memory.current")
	if errors.Is(err, fs.ErrNotExist) && dir == filepath.Clean(r.memory.Path) {
		return r.readMachine(u, inactive)
	}
	if err != nil {
		return err
	}
	m.WorkingSet = m.Usage - min(inactive, m.Usage)
	var errs []error
	for name, to := range map[string]*uint64{"memory.max": &m.Limit, "memory.swap.current": &u.Swap.Usage, "memory.swap.max": &u.Swap.Limit} {
		n, err := number(dir, name)
		if err == nil {
			*to = n
		}
		errs = append(errs, ignoreGone(err))
	}
	return errors.Join(errs...)
}

// readMachine has the machine's own figures stand in for those of the group at the top of
// v2, which has none, proc_meminfo(5).
func (r *Reader) readMachine(u *Usage, inactive uint64) error {
	raw, err := os.ReadFile(filepath.Join(r.proc, "meminfo"))
	if err != nil {
		return err
	}
	sizes := map[string]uint64{}
	for line := range bytes.Lines(raw) {
		fields := bytes.Fields(line)
		if len(fields) < 2 {
			continue
		}
		if n, err := strconv.ParseUint(string(fields[1]), 10, 64); err == nil {
			sizes[string(fields[0])] = n * 1024
		}
	}
	m := &u.Memory
	m.Usage = sizes["MemTotal:"] - min(sizes["MemFree:"], sizes["MemTotal:"])
	m.WorkingSet = m.Usage - min(inactive, m.Usage)
	u.Swap.Usage = sizes["SwapTotal:"] - min(sizes["SwapFree:"], sizes["SwapTotal:"])
	return nil
}

// readExtremes reads how near to its limits the memory came.
func (r *Reader) readExtremes(group string, e *Extremes) error {
	dir := r.memory.dir(group)
	largest, reserved := "memory.max_usage_in_bytes", "memory.soft_limit_in_bytes"
	if r.memory.V2 {
		largest, reserved = "memory.peak", "memory.low"
	}
	var err error
	if e.MaxMemory, err = number(dir, largest); ignoreGone(err) != nil {
		return err
	}
	if e.Reserved, err = number(dir, reserved); ignoreGone(err) != nil {
		return err
	}
	if e.Reserved == Unlimited {
		e.Reserved = 0
	}
	if r.memory.V2 {
		return ignoreGone(table(dir, "memory.events", func(key string, n uint64) {
			switch key {
			case "max":
				e.Failures = n
			case "oom_kill":
				e.Kills = n
			}
		}))
	}
	if e.Failures, err = number(dir, "memory.failcnt"); ignoreGone(err) != nil {
		return err
	}
	return ignoreGone(table(dir, "memory.oom_control", func(key string, n uint64) {
		if key == "oom_kill" {
			e.Kills = n
		}
	}))
}
