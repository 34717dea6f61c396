package cgroupstat

import (
	"bytes"
	"cmp"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// readPids reads how many processes and threads there are.
func (r *Reader) readPids(p *page, group string, d *Detail) error {
	if pids, err := r.Processes(group); err == nil {
		d.Processes = uint64(len(pids))
	} else if ignoreGone(err) != nil {
		return err
	}
	if r.pids == nil {
		return nil
	}
	dir := r.pids.dir(group)
	var err error
	if d.Threads, err = p.number(dir, "pids.current"); ignoreGone(err) != nil {
		return err
	}
	most, err := p.number(dir, "pids.max")
	if err == nil {
		d.MaxThreads = most
	}
	return ignoreGone(err)
}

// readDisks reads what was read and written.
func (r *Reader) readDisks(p *page, group string, d *Detail) error {
	if r.io == nil {
		return nil
	}
	disks := map[[2]uint32]*Disk{}
	dir := r.io.dir(group)
	if r.io.V2 {
		raw, err := p.read(filepath.Join(dir, "io.stat"))
		if err != nil {
			return ignoreGone(err)
		}
		parseDisksV2(raw, disks)
	} else {
		for _, name := range []string{"blkio.throttle.io_service_bytes", "blkio.throttle.io_serviced"} {
			raw, err := p.read(filepath.Join(dir, name+"_recursive"))
			if err != nil {
				raw, err = p.read(filepath.Join(dir, name))
			}
			if ignoreGone(err) != nil {
				return err
			}
			parseDisksV1(raw, name == "blkio.throttle.io_service_bytes", disks)
		}
	}
	for _, disk := range disks {
		d.Disks = append(d.Disks, *disk)
	}
	slices.SortFunc(d.Disks, func(a, b Disk) int {
		return cmp.Or(cmp.Compare(a.Major, b.Major), cmp.Compare(a.Minor, b.Minor))
	})
	return nil
}

// parseDisksV2 reads lines such as "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0".
func parseDisksV2(raw []byte, disks map[[2]uint32]*Disk) {
	for line := range bytes.Lines(raw) {
		fields := strings.Fields(string(line))
		if len(fields) < 2 {
			continue
		}
		disk := diskOf(fields[0], disks)
		if disk == nil {
			continue
		}
		for _, f := range fields[1:] {
			key, value, _ := strings.Cut(f, "=")
			n, err := strconv.ParseUint(value, 10, 64)
			if err != nil {
				continue
			}
			switch key {
			case "rbytes":
				disk.ReadBytes = n
			case "wbytes":
				disk.WrittenBytes = n
			case "rios":
				disk.Reads = n
			case "wios":
				disk.Writes = n
			}
		}
	}
}

// parseDisksV1 reads lines such as "8:0 Read 4096".
func parseDisksV1(raw []byte, inBytes bool, disks map[[2]uint32]*Disk) {
	for line := range bytes.Lines(raw) {
		fields := strings.Fields(string(line))
		if len(fields) != 3 {
			continue
		}
		n, err := strconv.ParseUint(fields[2], 10, 64)
		disk := diskOf(fields[0], disks)
		if err != nil || disk == nil {
			continue
		}
		switch {
		case fields[1] == "Read" && inBytes:
			disk.ReadBytes = n
		case fields[1] == "Write" && inBytes:
			disk.WrittenBytes = n
		case fields[1] == "Read":
			disk.Reads = n
		case fields[1] == "Write":
			disk.Writes = n
		}
	}
}

// diskOf returns the disk that "major:minor" names, nil if it names none.
func diskOf(name string, disks map[[2]uint32]*Disk) *Disk {
	major, minor, ok := strings.Cut(name, ":")
	a, err := strconv.ParseUint(major, 10, 32)
	if !ok || err != nil {
		return nil
	}
	b, err := strconv.ParseUint(minor, 10, 32)
	if err != nil {
		return nil
	}
	id := [2]uint32{uint32(a), uint32(b)}
	if disks[id] == nil {
		disks[id] = &Disk{Major: id[0], Minor: id[1]}
	}
	return disks[id]
}
