package capacity

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite what the machines of testdata are expected to be")

// expected is the file of an archive that says what its tree is read as.
const expected = "want"

// machine writes the tree of an archive to a directory and returns that.
func machine(t *testing.T, archive string) (root string, a *txtar.Archive) {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata", archive+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	root = t.TempDir()
	for _, f := range a.Files {
		if f.Name != expected {
			write(t, root, f.Name, string(f.Data))
		}
	}
	return root, a
}

func write(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// describe writes every property of a machine on its line.
func describe(m Machine) string {
	var b strings.Builder
	p := m.properties()
	for _, name := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintf(&b, "%s: %s\n", name, p[name])
	}
	return b.String()
}

func TestReadMachines(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) < 5 {
		t.Fatalf("archives %v, %v", paths, err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		t.Run(name, func(t *testing.T) {
			root, a := machine(t, name)
			m, err := Read(Config{Root: root})
			if err != nil {
				t.Fatal(err)
			}
			got := describe(m)
			i := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == expected })
			if *update {
				if i < 0 {
					i, a.Files = len(a.Files), append(a.Files, txtar.File{Name: expected})
				}
				a.Files[i].Data = []byte(got)
				if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if i < 0 {
				t.Fatal("the archive does not say what is expected; run with -update and look at it")
			}
			if diff := cmp.Diff(string(a.Files[i].Data), got); diff != "" {
				t.Errorf("machine (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadSaysWhatMakesNoSense(t *testing.T) {
	tests := []struct {
		name, file, text, want string
	}{
		{name: "CPUs", file: "sys/devices/system/cpu/online", text: "many", want: `CPUs: ROOT/sys/devices/system/cpu/online: list of CPUs "many": "many" must be the number of a CPU`},
		{name: "memory", file: "proc/meminfo", text: "MemTotal: lots kB", want: `memory: ROOT/proc/meminfo: "MemTotal: lots kB" must be a number of kB`},
		{name: "memory in another unit", file: "proc/meminfo", text: "MemTotal: 7 MB", want: `memory: ROOT/proc/meminfo: "MemTotal: 7 MB" must be a number of kB`},
		{name: "memory beyond 64 bits", file: "proc/meminfo", text: "MemTotal: 9223372036854775807 kB", want: `memory: ROOT/proc/meminfo: "MemTotal: 9223372036854775807 kB" must be a number of kB`},
		{name: "no memory", file: "proc/meminfo", text: "MemFree: 1 kB", want: "memory: ROOT/proc/meminfo has no MemTotal"},
		{name: "swap", file: "proc/meminfo", text: "MemTotal: 1 kB\nSwapTotal: -1 kB", want: `memory: ROOT/proc/meminfo: "SwapTotal: -1 kB" must be a number of kB`},
		{name: "huge pages", file: "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", text: "-3", want: `huge pages: ROOT/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages: "-3" must be a whole number`},
		{name: "size of pages", file: "sys/kernel/mm/hugepages/hugepages-bigkB/nr_hugepages", text: "1", want: `huge pages: ROOT/sys/kernel/mm/hugepages: "hugepages-bigkB" must state a size in kB`},
		{name: "more pages than bytes", file: "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", text: "9223372036854775807", want: "huge pages: ROOT/sys/kernel/mm/hugepages: no machine has 9223372036854775807 pages of 2048 kB"},
		{name: "process numbers", file: "proc/sys/kernel/pid_max", text: "x", want: `process numbers: ROOT/proc/sys/kernel/pid_max: "x" must be a whole number`},
		{name: "node", file: "sys/devices/system/node/node0/cpulist", text: "9-1", want: `NUMA nodes: ROOT/sys/devices/system/node/node0/cpulist: list of CPUs "9-1": range 9-1 ends before it begins`},
		{name: "distance", file: "sys/devices/system/node/node0/distance", text: "far", want: `NUMA nodes: ROOT/sys/devices/system/node/node0/distance: "far" must be a number`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root, _ := machine(t, "hybrid")
			write(t, root, tt.file, tt.text)
			_, err := Read(Config{Root: root})
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff("read the machine's "+tt.want, strings.ReplaceAll(err.Error(), root, "ROOT")); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadNeedsCPUsAndMemory(t *testing.T) {
	root, _ := machine(t, "container")
	write(t, root, "proc/cpuinfo", "model name: none\n")
	if _, err := Read(Config{Root: root}); err == nil || !strings.Contains(err.Error(), "names no processor") {
		t.Errorf("error %v", err)
	}
	if _, err := Read(Config{Root: t.TempDir()}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty tree: error %v", err)
	}
}

func TestReadFindsTheStorage(t *testing.T) {
	root, _ := machine(t, "hybrid")
	var asked string
	sizeOf := func(path string) (int64, error) {
		asked = path
		return 200 << 30, nil
	}
	m, err := read(Config{Root: root, StorageDir: "/var/lib/kubelet/deeper"}, sizeOf)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(root, "var/lib"); asked != want {
		t.Errorf("asked for %s, want its nearest parent that is there, %s", asked, want)
	}
	want := map[string]string{"cpu": "3", "memory": "8141816Ki", "pods": "110", "hugepages-2Mi": "0", "ephemeral-storage": "200Gi", "pid": "32768"}
	got := map[string]string{}
	for name, q := range m.Resources(110) {
		got[string(name)] = q.String()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	broken := errors.New("broken")
	if _, err := read(Config{Root: root, StorageDir: "/"}, func(string) (int64, error) { return 0, broken }); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

func TestReadThisMachine(t *testing.T) {
	m, err := Read(Config{StorageDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.CPUs) == 0 || m.Memory < 1<<20 || m.Storage == 0 || m.Info.KernelVersion == "" || m.Info.BootID == "" {
		t.Errorf("machine %+v", m)
	}
	if *m.Info.Swap.Capacity != m.Swap {
		t.Errorf("swap %d, in the node's information %d", m.Swap, *m.Info.Swap.Capacity)
	}
}

func FuzzKilobytes(f *testing.F) {
	f.Add("MemTotal:  8141816 kB\n")
	f.Add("Node 0 MemTotal: 1 kB")
	f.Add("MemTotal:")
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := kilobytes(text, "MemTotal"); n < 0 || err != nil && n != 0 || n%1024 != 0 {
			t.Errorf("%q gives %d, %v", text, n, err)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	b.ReportAllocs()
	dir := b.TempDir()
	for b.Loop() {
		if _, err := Read(Config{StorageDir: dir}); err != nil {
			b.Fatal(err)
		}
	}
}
