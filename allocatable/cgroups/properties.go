//go:build linux

package cgroups

import (
	"math"
	"strconv"
)

// Property is a setting of a unit of systemd. Value has the type that systemd asks for
// (org.freedesktop.systemd1(5)).
type Property struct {
	Name  string
	Value any
}

// infinity is systemd's word for no limit.
const infinity = uint64(math.MaxUint64)

// newSlice returns the properties of a slice that is made: it counts what is in it, since its controllers would
// not be there otherwise, and does not end before what is in it does.
func newSlice(name string, v2 bool) []Property {
	out := []Property{
		{"Description", "pods of this node: " + name},
		{"Wants", []string{parentSlice(name)}},
		{"DefaultDependencies", false},
		{"MemoryAccounting", true},
		{"CPUAccounting", true},
		{"TasksAccounting", true},
	}
	if v2 {
		out = append(out, Property{"IOAccounting", true})
	}
	return out
}

// properties translates limits for systemd, which would take back what was only written
// to files. Huge pages are none of its business.
func (l *Limits) properties(v2 bool) []Property {
	cpu, memory := Property{"CPUShares", l.CPUShares}, "MemoryLimit"
	if v2 {
		cpu, memory = Property{"CPUWeight", weight(l.CPUShares)}, "MemoryMax"
	}
	var out []Property
	if l.CPUShares != 0 {
		out = append(out, cpu)
	}
	if l.CPUPeriod != 0 {
		out = append(out, Property{"CPUQuotaPeriodUSec", l.CPUPeriod})
	}
	if l.CPUQuota != 0 || l.CPUPeriod != 0 {
		out = append(out, Property{"CPUQuotaPerSecUSec", perSecond(l.CPUQuota, l.CPUPeriod)})
	}
	if l.Memory != 0 {
		out = append(out, Property{memory, orInfinity(l.Memory)})
	}
	if l.Pids != 0 {
		out = append(out, Property{"TasksMax", orInfinity(l.Pids)})
	}
	if v2 {
		out = append(out, l.guards()...)
	}
	return out
}

// guards translates the files that protect and throttle memory.
func (l *Limits) guards() []Property {
	var out []Property
	for _, g := range []struct{ file, name string }{
		{memoryMin, "MemoryMin"}, {memoryLow, "MemoryLow"}, {memoryHigh, "MemoryHigh"},
	} {
		value, ok := l.Unified[g.file]
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil { // "max"
			n = infinity
		}
		out = append(out, Property{g.name, n})
	}
	return out
}

// orInfinity translates a limit that may be [Unlimited].
func orInfinity(n int64) uint64 {
	if n < 0 {
		return infinity
	}
	return uint64(n)
}

// percent is the unit of systemd's quotas: a hundredth of a CPU, in microseconds of a
// second (systemd rounds what it is told to it: CPUQuota= in systemd.resource-control(5)).
const percent = 10_000

// perSecond returns the CPU time in microseconds of each second, rounded up to what
// systemd keeps.
func perSecond(quota int64, period uint64) uint64 {
	if quota <= 0 {
		return infinity
	}
	if period == 0 {
		period = uint64(defaultPeriod.Microseconds())
	}
	us := uint64(quota) * 1_000_000 / period
	return (us + percent - 1) / percent * percent
}

// asSystemd rounds the quota to what systemd keeps. The slices of containers are rounded,
// too, and must not have more than the one they are in.
func (l *Limits) asSystemd() Limits {
	out := *l
	if l.CPUQuota > 0 {
		period := l.CPUPeriod
		if period == 0 {
			period = uint64(defaultPeriod.Microseconds())
		}
		out.CPUQuota = int64(perSecond(l.CPUQuota, period) * period / 1_000_000) //nolint:gosec // not larger than a limit
	}
	return out
}

// cpuMask is a set of CPUs as systemd takes it: CPU 0 is the lowest bit of the first byte.
func cpuMask(cpus []int) []byte {
	var mask []byte
	for _, cpu := range cpus {
		for len(mask) <= cpu/8 {
			mask = append(mask, 0)
		}
		mask[cpu/8] |= 1 << (cpu % 8)
	}
	return mask
}
