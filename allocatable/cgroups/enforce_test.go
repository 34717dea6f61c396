//go:build linux

package cgroups_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/allocatable/cgroups"
)

func TestEnforce(t *testing.T) {
	reserved := amounts("cpu", "500m", "memory", "1Gi", "pid", "1000")
	tests := []struct {
		name string
		do   func(tree *cgroups.Tree) error
		want map[string]string
	}{
		{
			name: "all pods",
			do:   func(tree *cgroups.Tree) error { return tree.EnforcePods(t.Context(), reserved) },
			want: map[string]string{"agent/kubepods/cpu.weight": "20", "agent/kubepods/memory.max": "1073741824", "agent/kubepods/pids.max": "1000"},
		},
		{
			name: "cpu alone is known",
			do:   func(tree *cgroups.Tree) error { return tree.EnforcePods(t.Context(), amounts("cpu", "2")) },
			want: map[string]string{"agent/kubepods/cpu.weight": "79"},
		},
		{
			name: "what is reserved for the system",
			do: func(tree *cgroups.Tree) error {
				return tree.EnforceReserved(t.Context(), "/system", reserved, false)
			},
			want: map[string]string{"system/cpu.weight": "20", "system/memory.max": "1073741824", "system/memory.min": "1073741824", "system/pids.max": "1000"},
		},
		{
			name: "what can be taken back",
			do: func(tree *cgroups.Tree) error {
				return tree.EnforceReserved(t.Context(), "system", reserved, true)
			},
			want: map[string]string{"system/cpu.weight": "20"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := fakeV2(t, "system", "agent", "agent/kubepods")
			if err := tt.do(treeOf(t, m)); err != nil {
				t.Fatal(err)
			}
			got := files(t, m.Path)
			for name := range got {
				if filepath.Base(name) == "cgroup.subtree_control" {
					delete(got, name)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReservedGroupsAreNotMade(t *testing.T) {
	m := fakeV2(t, "system")
	tree := treeOf(t, m)
	if err := tree.EnforceReserved(t.Context(), "/kube", amounts("cpu", "1"), false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error is %v, want one of a group that is missing", err)
	}
	if err := tree.EnforceReserved(t.Context(), "/a/../../system", amounts("cpu", "1"), false); err == nil {
		t.Error("a path that leads out of the hierarchy was taken")
	}
}
