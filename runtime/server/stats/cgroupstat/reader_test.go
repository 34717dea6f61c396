package cgroupstat

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// tree writes files below a new directory: path and content by turns.
func tree(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		name := filepath.Join(dir, files[i])
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(files[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// v1 is a machine with the hierarchies of cgroup v1, and a group /pods/a.
func v1(t *testing.T) []Hierarchy {
	t.Helper()
	return []Hierarchy{
		{Path: tree(t, "pods/a/cpuacct.usage", "2500000000\n", "pods/a/cpuacct.stat", "user 200\nsystem 50\n",
			"pods/a/cpu.stat", "nr_periods 10\nnr_throttled 3\nthrottled_time 7000000\n", "pods/a/cpu.shares", "512\n",
			"pods/a/cpu.cfs_period_us", "100000\n", "pods/a/cpu.cfs_quota_us", "50000\n"), Controllers: []string{"cpu", "cpuacct"}},
		{Path: tree(t, "pods/a/memory.usage_in_bytes", "5000\n", "pods/a/memory.limit_in_bytes", "8000\n", "pods/a/memory.memsw.limit_in_bytes", "8500\n",
			"pods/a/memory.stat", "rss 1\ntotal_rss 1000\ntotal_cache 3000\ntotal_mapped_file 400\ntotal_pgfault 12\ntotal_pgmajfault 2\ntotal_inactive_file 1500\ntotal_swap 77\n",
			"pods/a/memory.max_usage_in_bytes", "7000\n", "pods/a/memory.failcnt", "4\n", "pods/a/memory.soft_limit_in_bytes", "9223372036854771712\n",
			"pods/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", "pods/a/cgroup.procs", "11\n12\n", "pods/b/tasks", ""), Controllers: []string{"memory"}},
		{Path: tree(t, "pods/a/pids.current", "5\n", "pods/a/pids.max", "max\n"), Controllers: []string{"pids"}},
		{Path: tree(t, "pods/a/blkio.throttle.io_service_bytes_recursive", "8:0 Read 4096\n8:0 Write 8192\n8:0 Total 12288\nTotal 12288\n",
			"pods/a/blkio.throttle.io_serviced", "8:0 Read 1\n8:0 Write 2\nTotal 3\n"), Controllers: []string{"blkio"}},
	}
}

// v2 is a machine with cgroup v2 and the same group.
func v2(t *testing.T) []Hierarchy {
	t.Helper()
	return []Hierarchy{{V2: true, Controllers: []string{"cpu", "memory", "pids", "io"}, Path: tree(t,
		"memory.stat", "anon 10\nfile 20\ninactive_file 1024\n", "cpu.stat", "usage_usec 9000000\nuser_usec 1\nsystem_usec 2\n",
		"pods/a/cpu.stat", "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\nnr_periods 10\nnr_throttled 3\nthrottled_usec 7000\n",
		"pods/a/cpu.weight", "20\n", "pods/a/cpu.max", "50000 100000\n",
		"pods/a/memory.current", "5000\n", "pods/a/memory.max", "8000\n", "pods/a/memory.swap.current", "77\n", "pods/a/memory.swap.max", "500\n",
		"pods/a/memory.stat", "anon 1000\nfile 3000\nfile_mapped 400\ninactive_file 1500\npgfault 12\npgmajfault 2\n",
		"pods/a/memory.peak", "7000\n", "pods/a/memory.low", "0\n", "pods/a/memory.events", "low 0\nhigh 0\nmax 4\noom 1\noom_kill 1\n",
		"pods/a/pids.current", "5\n", "pods/a/pids.max", "max\n", "pods/a/cgroup.procs", "11\n12\n",
		"pods/a/io.stat", "8:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n",
		"pods/a/cpu.pressure", "some avg10=1.50 avg60=0.50 avg300=0.10 total=2500\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=10\n",
	)}}
}

// The kernel has two words for a group that is gone.
func TestGone(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{{nil, false}, {syscall.ENODEV, true}, {&fs.PathError{Op: "read", Path: "cgroup.procs", Err: syscall.ENODEV}, true}, {syscall.ENOENT, true}, {syscall.EIO, false}} {
		got := gone(c.err)
		if errors.Is(got, fs.ErrNotExist) != c.want || !errors.Is(got, c.err) {
			t.Errorf("%v becomes %v, want that the group is not there: %v", c.err, got, c.want)
		}
	}
}

func TestDetail(t *testing.T) {
	want := Detail{
		Usage: Usage{
			CPU:    2500 * time.Millisecond,
			Memory: Memory{Usage: 5000, WorkingSet: 3500, RSS: 1000, Cache: 3000, Mapped: 400, Faults: 12, MajorFaults: 2, Limit: 8000},
			Swap:   Swap{Usage: 77, Limit: 500},
		},
		User: 2 * time.Second, System: 500 * time.Millisecond,
		Periods: 10, Throttled: 3, ThrottledFor: 7 * time.Millisecond,
		Shares: 512, Quota: 50 * time.Millisecond, Period: 100 * time.Millisecond,
		Extremes:  Extremes{MaxMemory: 7000, Failures: 4, Kills: 1},
		Disks:     []Disk{{Major: 8, ReadBytes: 4096, WrittenBytes: 8192, Reads: 1, Writes: 2}},
		Processes: 2, Threads: 5, MaxThreads: Unlimited,
	}
	for name, machine := range map[string]func(*testing.T) []Hierarchy{"v1": v1, "v2": v2} {
		t.Run(name, func(t *testing.T) {
			r, err := New(machine(t))
			if err != nil {
				t.Fatal(err)
			}
			got, err := r.Detail("/pods/a")
			if err != nil {
				t.Fatal(err)
			}
			want := want
			if name == "v2" {
				want.Shares = 500 // a weight of 20
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Usage{}, "Time")); diff != "" {
				t.Errorf("detail (-want +got):\n%s", diff)
			}
			if time.Since(got.Time) > time.Hour {
				t.Errorf("read at %v", got.Time)
			}
			if _, err := r.Usage("/pods/none"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a group that is not there: %v", err)
			}
			children, err := r.Children("/pods")
			if err != nil || children[0] != "/pods/a" {
				t.Errorf("children are %v, %v", children, err)
			}
		})
	}
}

func TestTopOfV2IsTheMachine(t *testing.T) {
	proc := tree(t, "meminfo", "MemTotal: 10 kB\nMemFree: 4 kB\nSwapTotal: 3 kB\nSwapFree: 1 kB\n",
		"pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n")
	r, err := newWith(v2(t), proc)
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Detail("/")
	if err != nil {
		t.Fatal(err)
	}
	want := Memory{Usage: 6 * 1024, WorkingSet: 5 * 1024, RSS: 10, Cache: 20, Limit: Unlimited}
	if diff := cmp.Diff(want, got.Memory); diff != "" {
		t.Errorf("memory (-want +got):\n%s", diff)
	}
	if got.CPU != 9*time.Second || got.Swap.Usage != 2*1024 || got.Quota > 0 {
		t.Errorf("got %+v", got)
	}
	p, err := r.Pressure("/")
	if err != nil || p.CPU != nil || p.Memory == nil || p.Memory.Some.Total != time.Microsecond {
		t.Errorf("pressure is %+v, %v", p, err)
	}
}

func TestPressure(t *testing.T) {
	r, err := New(v2(t))
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Pressure("/pods/a")
	if err != nil {
		t.Fatal(err)
	}
	want := Pressure{CPU: &Stall{Some: Waiting{Total: 2500 * time.Microsecond, Avg10: 1.5, Avg60: .5, Avg300: .1}, Full: Waiting{Total: 10 * time.Microsecond}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pressure (-want +got):\n%s", diff)
	}
	old, err := New(v1(t))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := old.Pressure("/pods/a"); err != nil || got != (Pressure{}) {
		t.Errorf("v1 told of pressure: %+v, %v", got, err)
	}
}

func TestNoMemoryController(t *testing.T) {
	if _, err := New([]Hierarchy{{Path: "/x", Controllers: []string{"cpu"}}}); err == nil || !strings.Contains(err.Error(), "memory controller") {
		t.Errorf("error is %v", err)
	}
}

func TestOf(t *testing.T) {
	proc := tree(t, "7/cgroup", "4:memory:/pods/a\n1:name=systemd:/x\n0::/y\n")
	for name, want := range map[string]string{"v1": "/pods/a", "v2": "/y"} {
		machine := v1(t)
		if name == "v2" {
			machine = v2(t)
		}
		r, err := newWith(machine, proc)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.Of(7); got != want || err != nil {
			t.Errorf("%s: group is %q, %v, want %q", name, got, err, want)
		}
		if _, err := r.Of(8); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a process that is not there: %v", err)
		}
	}
}

// FuzzParsers gives any content to what reads files of the kernel: none may panic, and no
// number that is none may come out.
func FuzzParsers(f *testing.F) {
	for _, s := range []string{"", "max", "8:0 Read 1\n", "8:0 rbytes=1", "some avg10=NaN total=18446744073709551615", "a 1\nb\n c d e"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if n, err := parseNumber(raw); err == nil && n > Unlimited {
			t.Errorf("number %d", n)
		}
		parseTable(raw, func([]byte, uint64) {})
		disks := map[[2]uint32]*Disk{}
		parseDisksV1(raw, true, disks)
		parseDisksV2(raw, disks)
		s := parseStall(raw)
		for _, w := range []Waiting{s.Some, s.Full} {
			if math.IsNaN(w.Avg10) || w.Avg10 < 0 || w.Avg10 > 100 || w.Total < 0 {
				t.Errorf("stall %+v", s)
			}
		}
	})
}

func TestMadeIsTheEarliestOfTheHierarchies(t *testing.T) {
	noon := time.Date(2026, time.June, 1, 12, 0, 0, 0, time.UTC)
	hierarchies := v1(t)
	for i, h := range hierarchies {
		at := noon.Add(time.Duration(i) * time.Hour)
		if h.Controllers[0] == "pids" {
			at = noon.Add(-time.Minute)
		}
		if err := os.Chtimes(h.dir("/pods/a"), at, at); err != nil {
			t.Fatal(err)
		}
	}
	r, err := New(hierarchies)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Made("/pods/a"); err != nil || !got.Equal(noon.Add(-time.Minute)) {
		t.Errorf("made %s, %v; want a minute before noon", got, err)
	}
	if got, err := r.Made("/pods/b"); err != nil || got.IsZero() { // where there is memory alone
		t.Errorf("a group of one hierarchy: made %s, %v", got, err)
	}
	if got, err := r.Made("/pods/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such group: made %s, %v, want fs.ErrNotExist", got, err)
	}
}
