package allocatable

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseCPUs(t *testing.T) {
	tests := []struct {
		name, in string
		want     []int
		err      string
	}{
		{name: "none", in: "\n"},
		{name: "one", in: "0\n", want: []int{0}},
		{name: "ranges", in: "8,0-3", want: []int{0, 1, 2, 3, 8}},
		{name: "overlap", in: "0-2,1-3,3", want: []int{0, 1, 2, 3}},
		{name: "backwards", in: "3-0", err: `list of CPUs "3-0": range 3-0 ends before it begins`},
		{name: "text", in: "all", err: `list of CPUs "all": "all" must be the number of a CPU`},
		{name: "empty part", in: "0,,1", err: `list of CPUs "0,,1": "" must be the number of a CPU`},
		{name: "negative", in: "-1", err: `list of CPUs "-1": "" must be the number of a CPU`},
		{name: "too many", in: "0-4294967295", err: `list of CPUs "0-4294967295": no machine has CPU 4294967295`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseCPUs(tt.in)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if diff := cmp.Diff(tt.err, text); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("CPUs (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParseCPUs(f *testing.F) {
	for _, s := range []string{"0", "0-3,8", "", "3-0", "0-65535,0-65535", "1,1,1", "-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		cpus, err := ParseCPUs(s)
		if err != nil {
			return
		}
		for i, cpu := range cpus {
			if cpu < 0 || cpu > maxCPU || i > 0 && cpus[i-1] >= cpu {
				t.Fatalf("%q gives %v", s, cpus)
			}
		}
	})
}
