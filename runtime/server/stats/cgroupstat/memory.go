package cgroupstat

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"
)

// readMemory reads memory and swap
// (kernel: Documentation/admin-guide/cgroup-v1/memory.rst, cgroup-v2.rst).
func (r *Reader) readMemory(p *page, group string, u *Usage) error {
	dir := r.memory.dir(group)
	if r.memory.V2 {
		return r.readMemoryV2(p, dir, u)
	}
	return readMemoryV1(p, dir, u)
}

func readMemoryV1(p *page, dir string, u *Usage) error {
	m := &u.Memory
	var err error
	if m.Usage, err = p.number(dir, "memory.usage_in_bytes"); err != nil {
		return err
	}
	var inactive uint64
	err = p.table(dir, "memory.stat", func(key []byte, n uint64) {
		switch string(key) {
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
	if m.Limit, err = p.number(dir, "memory.limit_in_bytes"); err != nil {
		return err
	}
	u.Swap.Limit = Unlimited
	both, err := p.number(dir, "memory.memsw.limit_in_bytes")
	if err == nil && both < Unlimited {
		u.Swap.Limit = both - min(m.Limit, both)
	}
	return ignoreGone(err) // a kernel without accounting of swap
}

func (r *Reader) readMemoryV2(p *page, dir string, u *Usage) error {
	m := &u.Memory
	m.Limit, u.Swap.Limit = Unlimited, Unlimited
	var inactive uint64
	err := p.table(dir, "memory.stat", func(key []byte, n uint64) {
		switch string(key) {
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
	m.Usage, err = p.number(dir, "memory.current")
	if errors.Is(err, fs.ErrNotExist) && dir == filepath.Clean(r.memory.Path) {
		return r.readMachine(p, u, inactive)
	}
	if err != nil {
		return err
	}
	m.WorkingSet = m.Usage - min(inactive, m.Usage)
	var errs []error
	for _, f := range []struct {
		name string
		to   *uint64
	}{{"memory.max", &m.Limit}, {"memory.swap.current", &u.Swap.Usage}, {"memory.swap.max", &u.Swap.Limit}} {
		n, err := p.number(dir, f.name)
		if err == nil {
			*f.to = n
		}
		errs = append(errs, ignoreGone(err))
	}
	return errors.Join(errs...)
}

// readMachine has the machine's own figures stand in for those of the group at the top of
// v2, which has none, proc_meminfo(5).
func (r *Reader) readMachine(p *page, u *Usage, inactive uint64) error {
	raw, err := p.read(filepath.Join(r.proc, "meminfo"))
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
func (r *Reader) readExtremes(p *page, group string, e *Extremes) error {
	dir := r.memory.dir(group)
	largest, reserved := "memory.max_usage_in_bytes", "memory.soft_limit_in_bytes"
	if r.memory.V2 {
		largest, reserved = "memory.peak", "memory.low"
	}
	var err error
	if e.MaxMemory, err = p.number(dir, largest); ignoreGone(err) != nil {
		return err
	}
	if e.Reserved, err = p.number(dir, reserved); ignoreGone(err) != nil {
		return err
	}
	if e.Reserved == Unlimited {
		e.Reserved = 0
	}
	if r.memory.V2 {
		return ignoreGone(p.table(dir, "memory.events", func(key []byte, n uint64) {
			switch string(key) {
			case "max":
				e.Failures = n
			case "oom_kill":
				e.Kills = n
			}
		}))
	}
	if e.Failures, err = p.number(dir, "memory.failcnt"); ignoreGone(err) != nil {
		return err
	}
	return ignoreGone(p.table(dir, "memory.oom_control", func(key []byte, n uint64) {
		if string(key) == "oom_kill" {
			e.Kills = n
		}
	}))
}
