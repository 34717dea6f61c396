package cgroupstat

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Pressure reads how much a group waits. Only cgroup v2 tells of groups; with v1, only "/"
// has pressure, that of the machine. Where the kernel does not tell, fields are nil.
func (r *Reader) Pressure(group string) (Pressure, error) {
	var p Pressure
	top := strings.Trim(group, "/") == ""
	var errs []error
	page := &page{}
	for name, to := range map[string]**Stall{"cpu": &p.CPU, "memory": &p.Memory, "io": &p.IO} {
		file := filepath.Join(r.memory.dir(group), name+".pressure")
		switch {
		case top:
			file = filepath.Join(r.proc, "pressure", name)
		case !r.memory.V2:
			continue
		}
		s, err := readStall(page, file)
		*to = s
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return Pressure{}, fmt.Errorf("read pressure of control group %s: %w", group, err)
	}
	return p, nil
}

// readStall returns nil if there is no such file, or the kernel was started without.
func readStall(p *page, name string) (*Stall, error) {
	raw, err := p.read(name)
	if errors.Is(err, syscall.EOPNOTSUPP) || ignoreGone(err) == nil && err != nil {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, err
	}
	s := parseStall(raw)
	return &s, nil
}

// parseStall reads lines such as "some avg10=0.12 avg60=0.00 avg300=0.00 total=1234", where
// the total is in microseconds.
func parseStall(raw []byte) Stall {
	var s Stall
	for line := range bytes.Lines(raw) {
		fields := strings.Fields(string(line))
		if len(fields) == 0 {
			continue
		}
		w := &s.Some
		switch fields[0] {
		case "some":
		case "full":
			w = &s.Full
		default:
			continue
		}
		for _, f := range fields[1:] {
			key, value, _ := strings.Cut(f, "=")
			w.set(key, value)
		}
	}
	return s
}

// set takes one figure. What is none, such as a part of more than 100 per cent, is left out.
func (w *Waiting) set(key, value string) {
	if key == "total" {
		if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			w.Total = microseconds(n)
		}
		return
	}
	n, err := strconv.ParseFloat(value, 64)
	if err != nil || math.IsNaN(n) || n < 0 || n > 100 {
		return
	}
	switch key {
	case "avg10":
		w.Avg10 = n
	case "avg60":
		w.Avg60 = n
	case "avg300":
		w.Avg300 = n
	}
}
