//go:build linux

package gauge_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/allocatable/cgroups"
	"github.com/nodekit-go/nodekit/allocatable/eviction"
	"github.com/nodekit-go/nodekit/allocatable/eviction/gauge"
	"github.com/nodekit-go/nodekit/internal/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// memory is what a machine and its pods use.
type memory struct {
	machine, pods, limit int64
	err, podsErr         error
}

func (m memory) MachineUsage() (cgroups.Usage, error) {
	return cgroups.Usage{Memory: m.machine, MemoryLimit: cgroups.Unlimited}, m.err
}

func (m memory) PodsUsage() (cgroups.Usage, error) {
	return cgroups.Usage{Memory: m.pods, MemoryLimit: m.limit}, m.podsErr
}

// proc makes a procfs with so many tasks, so many at most, and a bound of their numbers.
func proc(t *testing.T, loadavg, threads, pids string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"loadavg": loadavg, "sys/kernel/threads-max": threads, "sys/kernel/pid_max": pids} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestObserve(t *testing.T) {
	const images = "containerfs.available imagefs.available"
	const disks = images + " nodefs.available"
	tests := []struct {
		name    string
		cfg     gauge.Config
		grown   int64                      // to how much memory, after it was made
		want    map[eviction.Signal]string // available/capacity
		signals string                     // all that were measured, without inodes, which not every file system has
		fails   string
	}{
		{
			name: "everything",
			cfg: gauge.Config{
				Memory: memory{machine: 1 << 30, pods: 100 << 20, limit: 512 << 20}, Capacity: 4 << 30,
				Proc: proc(t, "0.50 0.40 0.30 2/345 6789\n", "100000\n", "32768\n"),
			},
			want: map[eviction.Signal]string{
				eviction.MemoryAvailable: "3Gi/4Gi", eviction.AllocatableMemoryAvailable: "412Mi/512Mi", eviction.PIDAvailable: "32423/32768",
			},
			signals: "allocatableMemory.available " + images + " memory.available nodefs.available pid.available",
		},
		{
			name: "a machine that has grown", grown: 8 << 30,
			cfg:     gauge.Config{Memory: memory{machine: 3 << 30, limit: cgroups.Unlimited}, Capacity: 4 << 30, Proc: proc(t, "0 0 0 1/90 1", "100", "32768")},
			want:    map[eviction.Signal]string{eviction.MemoryAvailable: "5Gi/8Gi"},
			signals: images + " memory.available nodefs.available pid.available",
		},
		{
			name: "pods without a limit, fewer threads than process IDs",
			cfg: gauge.Config{
				Memory: memory{machine: 5 << 30, limit: cgroups.Unlimited}, Capacity: 4 << 30, Proc: proc(t, "0 0 0 1/90 1", "100", "32768"),
			},
			want:    map[eviction.Signal]string{eviction.MemoryAvailable: "0/4Gi", eviction.PIDAvailable: "10/100"},
			signals: images + " memory.available nodefs.available pid.available",
		},
		{
			name:    "no pod has run",
			cfg:     gauge.Config{Memory: memory{podsErr: fs.ErrNotExist}, Capacity: 1 << 30, Proc: proc(t, "0 0 0 1/1 1", "2", "2")},
			signals: images + " memory.available nodefs.available pid.available",
		},
		{
			name:    "what can't be measured is left out and named",
			cfg:     gauge.Config{Memory: memory{err: errors.New("no memory.stat")}, Capacity: 1 << 30, Proc: proc(t, "none", "2", "2")},
			signals: disks, fails: "no memory.stat",
		},
		{
			name:    "no numbers",
			cfg:     gauge.Config{Proc: proc(t, "0 0 0 1/x 1", "2", "2")},
			signals: disks, fails: "loadavg",
		},
		{
			name:    "memory that nobody tells of",
			cfg:     gauge.Config{Proc: proc(t, "0 0 0 1/1 1", "2", "2")},
			signals: disks + " pid.available",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.NodeFS = t.TempDir()
			g, err := gauge.New(tt.cfg)
			if err != nil {
				t.Fatal(err)
			}
			if tt.grown > 0 {
				g.SetCapacity(tt.grown)
			}
			got, err := g.Observe()
			if (err == nil) != (tt.fails == "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("error is %v, want %q", err, tt.fails)
			}
			for signal, want := range tt.want {
				o := got[signal]
				if s := o.Available.String() + "/" + o.Capacity.String(); s != want || o.Time.IsZero() {
					t.Errorf("%s is %s at %v, want %s", signal, s, o.Time, want)
				}
			}
			var signals []string
			for _, signal := range slices.Sorted(maps.Keys(got)) {
				if !strings.HasSuffix(string(signal), "inodesFree") {
					signals = append(signals, string(signal))
				}
			}
			if s := strings.Join(signals, " "); s != tt.signals {
				t.Errorf("measured: %s\nwant      %s", s, tt.signals)
			}
		})
	}
}

func TestThisMachine(t *testing.T) {
	g, err := gauge.New(gauge.Config{NodeFS: "/"})
	if err != nil {
		t.Fatal(err)
	}
	o, err := g.Observe()
	if err != nil {
		t.Fatal(err)
	}
	for _, signal := range []eviction.Signal{eviction.NodeFSAvailable, eviction.PIDAvailable} {
		if left := o[signal]; left.Available.Sign() <= 0 || left.Available.Cmp(left.Capacity) > 0 {
			t.Errorf("of %s %s are left of %s", signal, &left.Available, &left.Capacity)
		}
	}
	if disks, err := g.Disks(); err != nil || disks != eviction.OneDisk {
		t.Errorf("a machine with one directory has disks %d (%v)", disks, err)
	}
}

func TestNewAndDisksNameWhatIsMissing(t *testing.T) {
	if _, err := gauge.New(gauge.Config{}); err == nil {
		t.Error("a Gauge of nothing was made")
	}
	g, err := gauge.New(gauge.Config{NodeFS: "/", ImageFS: filepath.Join(t.TempDir(), "gone")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Disks(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error is %v", err)
	}
}

func TestTaken(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, size int) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before, err := gauge.Taken(dir)
	if err != nil {
		t.Fatal(err)
	}
	write("a", 1<<20)
	write("deep/down/b", 1<<20)
	if err := os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "same")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/usr", filepath.Join(dir, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	got, err := gauge.Taken(dir)
	if err != nil {
		t.Fatal(err)
	}
	// Two files, two directories, one link; some KiB for the directories, or none.
	if got.Inodes-before.Inodes != 5 || got.Bytes-before.Bytes < 2<<20 || got.Bytes-before.Bytes > 2<<20+64<<10 {
		t.Errorf("%+v are taken after %+v, want 2 MiB and 5 inodes more", got, before)
	}
	if _, err := gauge.Taken(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error of a directory that is not there is %v", err)
	}
	one, err := gauge.Taken(filepath.Join(dir, "a"))
	if diff := cmp.Diff(int64(1), one.Inodes); err != nil || diff != "" {
		t.Errorf("inodes of a file (-want +got):\n%s%v", diff, err)
	}
}
