package cgroups_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/allocatable/cgroups"
)

func TestParseMounts(t *testing.T) {
	tests := []struct {
		name, table string
		want        []cgroups.Mount
	}{
		{
			name:  "version 2",
			table: "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n",
			want:  []cgroups.Mount{{Path: "/sys/fs/cgroup", V2: true}},
		},
		{
			name: "hybrid, one hierarchy twice, a named one",
			table: "24 1 0:20 / /sys rw - sysfs sysfs rw\n" +
				"31 30 0:27 / /sys/fs/cgroup/memory rw shared:10 master:2 - cgroup cgroup rw,memory\n" +
				"32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpuacct,cpu\n" +
				"33 30 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpuacct,cpu\n" +
				"34 30 0:29 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n" +
				"35 30 0:30 / /sys/fs/cgroup/uni\\040fied rw - cgroup2 cgroup2 rw\n",
			want: []cgroups.Mount{
				{Path: "/sys/fs/cgroup/memory", Controllers: []string{"memory"}},
				{Path: "/sys/fs/cgroup/cpu,cpuacct", Controllers: []string{"cpu", "cpuacct"}},
				{Path: "/sys/fs/cgroup/systemd"},
				{Path: "/sys/fs/cgroup/uni fied", V2: true},
			},
		},
		{
			name: "options that are no controllers",
			table: "31 30 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,seclabel,cpuset,cpuset_v2_mode\n" +
				"32 30 0:28 / /sys/fs/cgroup/pids rw - cgroup  rw,favordynmods,pids\n",
			want: []cgroups.Mount{
				{Path: "/sys/fs/cgroup/cpuset", Controllers: []string{"cpuset"}},
				{Path: "/sys/fs/cgroup/pids", Controllers: []string{"pids"}},
			},
		},
		{name: "garbage", table: "cgroup\n- cgroup\n\n1 2 3 4 5 6 -\n1 2 3 4 5 - cgroup\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := cgroups.ParseMounts(strings.NewReader(tt.table))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("mounts (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParseMounts(f *testing.F) {
	f.Add("31 30 0:27 / /sys/fs/cgroup/memory rw shared:10 master:2 - cgroup cgroup rw,memory\n")
	f.Add("1 2 3 4 /a\\040b - cgroup2 x rw")
	f.Fuzz(func(t *testing.T, table string) {
		mounts, err := cgroups.ParseMounts(strings.NewReader(table))
		for _, m := range mounts {
			if err == nil && m.V2 && m.Controllers != nil {
				t.Errorf("mount %+v has controllers the table does not name", m)
			}
		}
	})
}
