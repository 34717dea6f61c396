package capacity

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// writeCPU makes the files that tell where a CPU is.
func writeCPU(t *testing.T, root string, c CPU, sharing string) {
	t.Helper()
	dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/", c.ID)
	write(t, root, dir+"topology/core_id", fmt.Sprintln(c.Core))
	write(t, root, dir+"topology/physical_package_id", fmt.Sprintln(c.Socket))
	write(t, root, dir+"cache/index0/level", "1")
	write(t, root, dir+"cache/index3/level", "3")
	write(t, root, dir+"cache/index3/shared_cpu_list", sharing)
	write(t, root, dir+"cache/index3/id", fmt.Sprintln(10+c.Core/2))
}

func TestReadLayout(t *testing.T) {
	tests := []struct {
		name string
		make func(t *testing.T, root string)
		m    Machine
		want []CPU
	}{
		{
			name: "two sockets, two CPUs on a core", m: Machine{CPUs: []int{0, 1, 2, 3}, NUMA: []NUMANode{{ID: 0, CPUs: []int{0, 2}}, {ID: 1, CPUs: []int{1, 3}}}},
			make: func(t *testing.T, root string) {
				t.Helper()
				for id := range 4 {
					writeCPU(t, root, CPU{ID: id, Socket: id % 2}, fmt.Sprintf("%d,%d", id%2, id%2+2))
				}
			},
			want: []CPU{{ID: 0}, {ID: 1, Core: 1, Socket: 1, Node: 1, Cache: 1}, {ID: 2}, {ID: 3, Core: 1, Socket: 1, Node: 1, Cache: 1}},
		},
		{
			name: "two caches on a socket", m: Machine{CPUs: []int{0, 1, 2, 3}, NUMA: []NUMANode{{ID: 0, CPUs: []int{0, 1, 2, 3}}}},
			make: func(t *testing.T, root string) {
				t.Helper()
				for id := range 4 {
					writeCPU(t, root, CPU{ID: id, Core: id}, fmt.Sprintf("%d-%d", id/2*2, id/2*2+1))
				}
			},
			want: []CPU{{ID: 0, Cache: 10}, {ID: 1, Core: 1, Cache: 10}, {ID: 2, Core: 2, Cache: 11}, {ID: 3, Core: 3, Cache: 11}},
		},
		{
			name: "one CPU of a core is offline", m: Machine{CPUs: []int{1, 2}},
			make: func(t *testing.T, root string) {
				t.Helper()
				for id := range 3 {
					writeCPU(t, root, CPU{ID: id, Core: id / 2}, "1-2")
				}
			},
			want: []CPU{{ID: 1, Core: 1}, {ID: 2, Core: 2}},
		},
		{
			name: "nothing is told", m: Machine{CPUs: []int{0, 1}}, make: func(*testing.T, string) {},
			want: []CPU{{ID: 0}, {ID: 1, Core: 1}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			tt.make(t, root)
			got, err := ReadLayout(Config{Root: root}, tt.m)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("layout (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadLayoutSaysWhatMakesNoSense(t *testing.T) {
	for _, file := range []string{"topology/core_id", "topology/physical_package_id", "cache/index3/level", "cache/index3/id", "cache/index3/shared_cpu_list"} {
		root := t.TempDir()
		writeCPU(t, root, CPU{}, "0")
		write(t, root, "sys/devices/system/cpu/cpu0/"+file, "many")
		if _, err := ReadLayout(Config{Root: root}, Machine{CPUs: []int{0}}); err == nil || !strings.Contains(err.Error(), `"many"`) {
			t.Errorf("%s: error %v", file, err)
		}
	}
}

func TestReadLayoutOfThisMachine(t *testing.T) {
	m, err := Read(Config{})
	if err != nil {
		t.Fatal(err)
	}
	cpus, err := ReadLayout(Config{}, m)
	if err != nil || len(cpus) != len(m.CPUs) {
		t.Errorf("%d CPUs of %d, %v", len(cpus), len(m.CPUs), err)
	}
}
