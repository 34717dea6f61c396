package mountinfo

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseLine(t *testing.T) {
	tests := []struct {
		name, line string
		want       Mount
		not        bool
	}{
		{name: "optional words", line: "36 35 98:0 / /a rw,noatime master:1 shared:2 - ext4 /dev/sda rw,errors=panic\n", want: Mount{Point: "/a", Type: "ext4", Options: "rw,errors=panic"}},
		{name: "no optional words", line: "36 35 98:0 / /a rw - cgroup2 cgroup rw", want: Mount{Point: "/a", Type: "cgroup2", Options: "rw"}},
		{name: "an empty source", line: "36 35 98:0 / /a rw - cgroup  rw,memory", want: Mount{Point: "/a", Type: "cgroup", Options: "rw,memory"}},
		{name: "a dash for a source", line: "36 35 98:0 / /a rw - cgroup - rw,memory", want: Mount{Point: "/a", Type: "cgroup", Options: "rw,memory"}},
		{name: "escapes", line: `36 35 98:0 / /a\040b\011\134\043 rw - cgroup cgroup rw`, want: Mount{Point: "/a b\t\\#", Type: "cgroup", Options: "rw"}},
		{name: "no escapes", line: `36 35 98:0 / /a\04\999\777 rw - cgroup cgroup rw`, want: Mount{Point: `/a\04\999\777`, Type: "cgroup", Options: "rw"}},
		{name: "nothing", not: true},
		{name: "no dash", line: "36 35 98:0 / /a rw cgroup cgroup rw", not: true},
		{name: "too little before it", line: "36 35 98:0 / /a - cgroup cgroup rw", not: true},
		{name: "too little behind it", line: "36 35 98:0 / /a rw - cgroup rw", not: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := ParseLine(tt.line)
			if ok == tt.not {
				t.Errorf("is a line: %t, want %t", ok, !tt.not)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("mount (-want +got):\n%s", diff)
			}
		})
	}
}

func TestControllersAreNoOtherOptions(t *testing.T) {
	tests := []struct {
		options string
		want    []string
	}{
		{options: ""},
		{options: "rw,memory", want: []string{"memory"}},
		{options: "rw,cpuacct,cpu", want: []string{"cpu", "cpuacct"}},
		{options: "rw,cpuset,cpuset_v2_mode", want: []string{"cpuset"}},
		{options: "ro,seclabel,favordynmods,noprefix,clone_children,xattr,pids,release_agent=/agent", want: []string{"pids"}},
		{options: "rw,sync,dirsync,lazytime,net_prio,net_cls", want: []string{"net_cls", "net_prio"}},
		{options: "rw,none,name=memory"},
	}
	for _, tt := range tests {
		got := Mount{Options: tt.options}.Controllers()
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("controllers of %q (-want +got):\n%s", tt.options, diff)
		}
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add("36 35 98:0 / /my\\040point rw,noatime master:1 - cgroup cgroup rw,memory")
	f.Add("1 2 3 4 \\04 - - - -")
	f.Add("\\777 - ")
	f.Fuzz(func(t *testing.T, line string) {
		m, ok := ParseLine(line)
		if ok && m.Type == "" {
			t.Errorf("%q is a mount without a type", line)
		}
		if !ok && m != (Mount{}) {
			t.Errorf("%q is no line, and says %+v", line, m)
		}
		if len(m.Point) > len(line) || len(unescape(line)) > len(line) {
			t.Errorf("%q grows", line)
		}
		m.Controllers()
	})
}
