//go:build linux

package cgroups_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/allocatable/cgroups"
)

// group writes the files of a control group: name and content by turns.
func group(t *testing.T, dir string, files ...string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(files); i += 2 {
		if err := os.WriteFile(filepath.Join(dir, files[i]), []byte(files[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func treeOf(t *testing.T, mounts ...cgroups.Mount) *cgroups.Tree {
	t.Helper()
	tree, err := cgroups.New(cgroups.Config{Mounts: mounts, Root: "/agent", Class: classOf})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestPodUsage(t *testing.T) {
	const pod = "agent/kubepods/burstable/podu1"
	v2 := func(files ...string) []cgroups.Mount {
		m := cgroups.Mount{Path: t.TempDir(), V2: true, Controllers: []string{"cpu", "memory", "pids"}}
		group(t, filepath.Join(m.Path, pod), files...)
		return []cgroups.Mount{m}
	}
	v1 := func() []cgroups.Mount {
		memory := cgroups.Mount{Path: t.TempDir(), Controllers: []string{"memory"}}
		pids := cgroups.Mount{Path: t.TempDir(), Controllers: []string{"pids"}}
		cpu := cgroups.Mount{Path: t.TempDir(), Controllers: []string{"cpuacct"}}
		named := cgroups.Mount{Path: t.TempDir()}
		group(t, filepath.Join(memory.Path, pod), "memory.usage_in_bytes", "5000\n", "memory.stat", "inactive_file 1\ntotal_inactive_file 2000\n",
			"memory.limit_in_bytes", "9223372036854771712\n")
		group(t, filepath.Join(pids.Path, pod), "pids.current", "3\n")
		group(t, filepath.Join(cpu.Path, pod), "cpuacct.usage", "123\n")
		return []cgroups.Mount{memory, pids, cpu, named}
	}
	tests := []struct {
		name   string
		mounts []cgroups.Mount
		want   cgroups.Usage
		fails  string
	}{
		{
			name: "v2",
			mounts: v2("memory.current", "1000\n", "memory.stat", "anon 1\ninactive_file 300\nactive_file 7\n", "memory.max", "max\n",
				"pids.current", "12\n", "cpu.stat", "usage_usec 1500\nuser_usec 1\n"),
			want: cgroups.Usage{Memory: 700, MemoryLimit: cgroups.Unlimited, Processes: 12, CPU: 1500 * time.Microsecond},
		},
		{
			name:   "v2 with a limit, more unused than used",
			mounts: v2("memory.current", "1000", "memory.stat", "inactive_file 3000", "memory.max", "4096", "pids.current", "1", "cpu.stat", "usage_usec 0"),
			want:   cgroups.Usage{MemoryLimit: 4096, Processes: 1},
		},
		{
			name:   "v1, each controller apart",
			mounts: v1(),
			want:   cgroups.Usage{Memory: 3000, MemoryLimit: cgroups.Unlimited, Processes: 3, CPU: 123},
		},
		{
			name:   "no number",
			mounts: v2("memory.current", "many", "memory.stat", ""),
			fails:  "memory.current",
		},
		{
			name:   "a file without what is looked for",
			mounts: v2("memory.current", "1", "memory.stat", "inactive_file_not 3\n"),
			fails:  "has no inactive_file",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree := treeOf(t, tt.mounts...)
			got, err := tree.PodUsage("u1")
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) {
					t.Fatalf("error is %v, want %q", err, tt.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
			if _, err := tree.PodUsage("u2"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("of a pod without a group the error is %v", err)
			}
		})
	}
}

func TestUsageAbovePods(t *testing.T) {
	m := cgroups.Mount{Path: t.TempDir(), V2: true, Controllers: []string{"cpu", "memory"}}
	group(t, m.Path, "memory.stat", "inactive_file 1\n", "cpu.stat", "usage_usec 5\n") // as at the top: no memory.current
	group(t, filepath.Join(m.Path, "agent/kubepods"), "memory.current", "70", "memory.stat", "inactive_file 20", "memory.max", "100")
	tree := treeOf(t, m)
	pods, err := tree.PodsUsage()
	if want := (cgroups.Usage{Memory: 50, MemoryLimit: 100}); err != nil || pods != want {
		t.Errorf("all pods use %+v (%v), want %+v", pods, err, want)
	}
	machine, err := tree.MachineUsage()
	if err != nil || machine.Memory <= 1<<20 || machine.CPU != 5*time.Microsecond {
		t.Errorf("the machine uses %+v (%v)", machine, err)
	}
}
