package stats

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nodekit-go/nodekit/runtime/server/stats/cgroupstat"
)

// containerTable are the families of Containers: a table of what each tells of a subject,
// and those with more labels.
type containerTable struct {
	plain  []column
	filled []Family // by plain
	cpu, failures, usage, size, inodes, inodesFree,
	readBytes, writtenBytes, reads, writes Family
	network []Family // by networkColumns
	errors  Family
	// devices are the names of disks.
	devices map[[2]uint32]string
}

// column is a family with the labels of containers only.
type column struct {
	name, help string
	kind       Kind
	// timed says that the value was read at some time.
	timed bool
	// value is false where there is none.
	value func(*subject) (float64, bool)
}

// columns are the families with the labels of containers only.
func columns() []column {
	number := func(f func(*subject) uint64) func(*subject) (float64, bool) {
		return func(s *subject) (float64, bool) { return float64(f(s)), true }
	}
	seconds := func(f func(*subject) time.Duration) func(*subject) (float64, bool) {
		return func(s *subject) (float64, bool) { return f(s).Seconds(), true }
	}
	limit := func(f func(*subject) uint64) func(*subject) (float64, bool) {
		return func(s *subject) (float64, bool) {
			n := f(s)
			if n >= cgroupstat.Unlimited {
				n = 0 // as kubelets say that there is none
			}
			return float64(n), true
		}
	}
	return append([]column{
		{"container_last_seen", "When the container was last seen, in seconds of Unix time.", Gauge, true, func(s *subject) (float64, bool) { return float64(s.detail.Time.Unix()), true }},
		{"container_start_time_seconds", "When the container was started, in seconds of Unix time.", Gauge, false, func(s *subject) (float64, bool) { return float64(s.created.Unix()), !s.created.IsZero() }},
		{"container_cpu_user_seconds_total", "CPU time used in user mode.", Counter, true, seconds(func(s *subject) time.Duration { return s.detail.User })},
		{"container_cpu_system_seconds_total", "CPU time used in the kernel.", Counter, true, seconds(func(s *subject) time.Duration { return s.detail.System })},
		{"container_cpu_cfs_periods_total", "Periods of the CPU quota.", Counter, true, throttled(func(s *subject) float64 { return float64(s.detail.Periods) })},
		{"container_cpu_cfs_throttled_periods_total", "Periods in which the CPU quota was used up.", Counter, true, throttled(func(s *subject) float64 { return float64(s.detail.Throttled) })},
		{"container_cpu_cfs_throttled_seconds_total", "For how long the container stood still for its CPU quota.", Counter, true, throttled(func(s *subject) float64 { return s.detail.ThrottledFor.Seconds() })},
		{"container_spec_cpu_period", "The period of the CPU quota, in microseconds.", Gauge, false, func(s *subject) (float64, bool) { return float64(s.detail.Period.Microseconds()), s.detail.Period > 0 }},
		{"container_spec_cpu_quota", "The CPU quota of a period, in microseconds.", Gauge, false, func(s *subject) (float64, bool) { return float64(s.detail.Quota.Microseconds()), s.detail.Quota > 0 }},
		{"container_spec_cpu_shares", "The weight of CPU time.", Gauge, false, func(s *subject) (float64, bool) { return float64(s.detail.Shares), s.detail.Shares > 0 }},
		{"container_memory_usage_bytes", "Memory that is charged, reclaimable or not.", Gauge, true, number(func(s *subject) uint64 { return s.detail.Memory.Usage })},
		{"container_memory_working_set_bytes", "The working set.", Gauge, true, number(func(s *subject) uint64 { return s.detail.Memory.WorkingSet })},
		{"container_memory_rss", "Memory that belongs to no file, in bytes.", Gauge, true, number(func(s *subject) uint64 { return s.detail.Memory.RSS })},
		{"container_memory_cache", "Memory that belongs to files, in bytes.", Gauge, true, number(func(s *subject) uint64 { return s.detail.Memory.Cache })},
		{"container_memory_mapped_file", "Files that are mapped, in bytes.", Gauge, true, number(func(s *subject) uint64 { return s.detail.Memory.Mapped })},
		{"container_memory_swap", "Swap that is used, in bytes.", Gauge, true, number(func(s *subject) uint64 { return s.detail.Swap.Usage })},
		{"container_memory_max_usage_bytes", "The largest usage of memory ever.", Gauge, true, number(func(s *subject) uint64 { return s.detail.MaxMemory })},
		{"container_memory_failcnt", "How often the limit of memory was met.", Counter, true, number(func(s *subject) uint64 { return s.detail.Failures })},
		{"container_oom_events_total", "Processes that were killed because memory ran out.", Counter, true, number(func(s *subject) uint64 { return s.detail.Kills })},
		{"container_spec_memory_limit_bytes", "The limit of memory; 0: there is none.", Gauge, false, limit(func(s *subject) uint64 { return s.detail.Memory.Limit })},
		{"container_spec_memory_swap_limit_bytes", "The limit of swap; 0: there is none.", Gauge, false, limit(func(s *subject) uint64 { return s.detail.Swap.Limit })},
		{"container_spec_memory_reservation_limit_bytes", "Memory that is left as long as possible.", Gauge, false, limit(func(s *subject) uint64 { return s.detail.Reserved })},
		{"container_processes", "Processes of the container.", Gauge, true, number(func(s *subject) uint64 { return s.detail.Processes })},
		{"container_threads", "Threads of the container.", Gauge, true, number(func(s *subject) uint64 { return s.detail.Threads })},
		{"container_threads_max", "Threads that the container may have; 0: any number.", Gauge, true, limit(func(s *subject) uint64 { return s.detail.MaxThreads })},
	}, pressureColumns()...)
}

// throttled has values only for those with a CPU quota.
func throttled(f func(*subject) float64) func(*subject) (float64, bool) {
	return func(s *subject) (float64, bool) { return f(s), s.detail.Quota > 0 }
}

// pressureColumns tell for how long was waited: by some processes, or by all.
func pressureColumns() []column {
	var out []column
	for _, p := range []struct {
		of    string
		stall func(*subject) *cgroupstat.Stall
	}{
		{"cpu", func(s *subject) *cgroupstat.Stall { return s.pressure.CPU }},
		{"memory", func(s *subject) *cgroupstat.Stall { return s.pressure.Memory }},
		{"io", func(s *subject) *cgroupstat.Stall { return s.pressure.IO }},
	} {
		for _, k := range []struct {
			word, who string
			of        func(*cgroupstat.Stall) time.Duration
		}{
			{"waiting", "some", func(s *cgroupstat.Stall) time.Duration { return s.Some.Total }},
			{"stalled", "all", func(s *cgroupstat.Stall) time.Duration { return s.Full.Total }},
		} {
			out = append(out, column{
				fmt.Sprintf("container_pressure_%s_%s_seconds_total", p.of, k.word), fmt.Sprintf("For how long %s processes waited for %s.", k.who, p.of), Counter, true,
				func(s *subject) (float64, bool) {
					if stall := p.stall(s); stall != nil {
						return k.of(stall).Seconds(), true
					}
					return 0, false
				},
			})
		}
	}
	return out
}

// networkColumns are the families with the name of an interface.
func networkColumns() []struct {
	name, help string
	value      func(*link) uint64
} {
	return []struct {
		name, help string
		value      func(*link) uint64
	}{
		{"receive_bytes_total", "Bytes received.", func(l *link) uint64 { return l.rxBytes }},
		{"receive_packets_total", "Packets received.", func(l *link) uint64 { return l.rxPackets }},
		{"receive_packets_dropped_total", "Packets that were dropped when received.", func(l *link) uint64 { return l.rxDropped }},
		{"receive_errors_total", "Errors when receiving.", func(l *link) uint64 { return l.rxErrors }},
		{"transmit_bytes_total", "Bytes sent.", func(l *link) uint64 { return l.txBytes }},
		{"transmit_packets_total", "Packets sent.", func(l *link) uint64 { return l.txPackets }},
		{"transmit_packets_dropped_total", "Packets that were dropped when sent.", func(l *link) uint64 { return l.txDropped }},
		{"transmit_errors_total", "Errors when sending.", func(l *link) uint64 { return l.txErrors }},
	}
}

func newContainerTable() *containerTable {
	t := &containerTable{plain: columns(), devices: map[[2]uint32]string{}}
	for _, c := range t.plain {
		t.filled = append(t.filled, Family{Name: c.name, Help: c.help, Kind: c.kind, Labels: containerLabels()})
	}
	disk := func(name, help string, kind Kind) Family {
		return Family{Name: "container_fs_" + name, Help: help, Kind: kind, Labels: containerLabels("device")}
	}
	t.cpu = Family{Name: "container_cpu_usage_seconds_total", Help: "CPU time used, in core-seconds.", Kind: Counter, Labels: containerLabels("cpu")}
	t.failures = Family{Name: "container_memory_failures_total", Help: "Faults of pages.", Kind: Counter, Labels: containerLabels("failure_type", "scope")}
	t.usage, t.size = disk("usage_bytes", "What is taken of the file system.", Gauge), disk("limit_bytes", "The size of the file system.", Gauge)
	t.inodes, t.inodesFree = disk("inodes_total", "The inodes of the file system.", Gauge), disk("inodes_free", "The inodes that are left.", Gauge)
	t.readBytes, t.writtenBytes = disk("reads_bytes_total", "Bytes read.", Counter), disk("writes_bytes_total", "Bytes written.", Counter)
	t.reads, t.writes = disk("reads_total", "Reads done.", Counter), disk("writes_total", "Writes done.", Counter)
	for _, c := range networkColumns() {
		t.network = append(t.network, Family{Name: "container_network_" + c.name, Help: c.help, Kind: Counter, Labels: containerLabels("interface")})
	}
	t.errors = Family{Name: "container_scrape_error", Help: "1 if containers could not be read, else 0."}
	return t
}

// add adds all there is of a subject.
func (t *containerTable) add(s *subject) {
	at, labels := s.detail.Time, s.labels()
	for i, c := range t.plain {
		if v, ok := c.value(s); ok && c.timed {
			t.filled[i].add(v, at, labels...)
		} else if ok {
			t.filled[i].add(v, time.Time{}, labels...)
		}
	}
	t.cpu.add(s.detail.CPU.Seconds(), at, s.labels("total")...)
	scopes := []string{"hierarchy"}
	if s.leaf {
		scopes = []string{"container", "hierarchy"}
	}
	for _, scope := range scopes {
		t.failures.add(float64(s.detail.Memory.Faults), at, s.labels("pgfault", scope)...)
		t.failures.add(float64(s.detail.Memory.MajorFaults), at, s.labels("pgmajfault", scope)...)
	}
	for i, c := range networkColumns() {
		for j := range s.links {
			t.network[i].add(float64(c.value(&s.links[j])), at, s.labels(s.links[j].name)...)
		}
	}
	t.addDisks(s)
}

// addDisks adds what a subject takes of disks, reads and writes.
func (t *containerTable) addDisks(s *subject) {
	at := s.detail.Time
	if l := s.layer; l != nil {
		labels := s.labels(l.point)
		t.usage.add(float64(l.bytes), at, labels...)
		if l.disk.known {
			t.size.add(float64(l.disk.size), at, labels...)
		}
		if l.disk.known && s.container == "" { // of a container, its own would be asked for
			t.inodes.add(float64(l.disk.inodes), at, labels...)
			t.inodesFree.add(float64(l.disk.inodesFree), at, labels...)
		}
	}
	for _, d := range s.detail.Disks {
		labels := s.labels(t.device(d.Major, d.Minor))
		t.readBytes.add(float64(d.ReadBytes), at, labels...)
		t.writtenBytes.add(float64(d.WrittenBytes), at, labels...)
		t.reads.add(float64(d.Reads), at, labels...)
		t.writes.add(float64(d.Writes), at, labels...)
	}
}

// device is the file of a device, /dev/sda for 8:0 (kernel: Documentation/ABI, sysfs-dev);
// its numbers if it has none.
func (t *containerTable) device(major, minor uint32) string {
	id := [2]uint32{major, minor}
	if name, ok := t.devices[id]; ok {
		return name
	}
	name := strconv.FormatUint(uint64(major), 10) + ":" + strconv.FormatUint(uint64(minor), 10)
	if raw, err := os.ReadFile(filepath.Join("/sys/dev/block", name, "uevent")); err == nil {
		for line := range strings.Lines(string(raw)) {
			if dev, ok := strings.CutPrefix(strings.TrimSpace(line), "DEVNAME="); ok {
				name = filepath.Join("/dev", dev)
			}
		}
	}
	t.devices[id] = name
	return name
}

func (t *containerTable) all() []Family {
	list := append(t.filled, t.network...)
	return filled(append(list, t.cpu, t.failures, t.usage, t.size, t.inodes, t.inodesFree, t.readBytes, t.writtenBytes, t.reads, t.writes, t.errors)...)
}

// machineFamilies tell what the machine has.
func machineFamilies(m Machine) []Family {
	if m.CPUs == 0 {
		return nil
	}
	var out []Family
	for _, f := range []struct {
		name, help string
		value      uint64
	}{
		{"machine_cpu_cores", "Logical CPUs.", uint64(max(m.CPUs, 0))},
		{"machine_cpu_physical_cores", "CPU cores.", uint64(max(m.Cores, 0))},
		{"machine_cpu_sockets", "CPU packages.", uint64(max(m.Sockets, 0))},
		{"machine_memory_bytes", "Memory of the machine.", m.MemoryBytes},
		{"machine_swap_bytes", "Swap of the machine.", m.SwapBytes},
	} {
		family := Family{Name: f.name, Help: f.help, Labels: []string{"boot_id", "machine_id", "system_uuid"}}
		family.add(float64(f.value), time.Time{}, m.BootID, m.ID, m.UUID)
		out = append(out, family)
	}
	version := Family{Name: "cadvisor_version_info", Help: "The versions of the kernel and the operating system.", Labels: []string{"cadvisorRevision", "cadvisorVersion", "dockerVersion", "kernelVersion", "osVersion"}}
	version.add(1, time.Time{}, "", "", "", m.Kernel, m.OS)
	return append(out, version)
}
