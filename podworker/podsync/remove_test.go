package podsync

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

func TestMountBelow(t *testing.T) {
	const table = `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:25 / /var/lib/kubelet/pods/u1/volumes/a\040b rw - tmpfs tmpfs rw
31 22 0:26 / /var/lib/kubelet/pods/u22 rw - tmpfs tmpfs rw
short line
`
	tests := []struct{ name, dir, want string }{
		{name: "below", dir: "/var/lib/kubelet/pods/u1", want: "/var/lib/kubelet/pods/u1/volumes/a b"},
		{name: "itself", dir: "/var/lib/kubelet/pods/u22", want: "/var/lib/kubelet/pods/u22"},
		{name: "only a prefix of the name", dir: "/var/lib/kubelet/pods/u2"},
		{name: "above", dir: "/var/lib/kubelet/pods/u22/x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := mountBelow(strings.NewReader(table), tt.dir)
			if err != nil || got != tt.want {
				t.Errorf("mountBelow = %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func FuzzMountBelow(f *testing.F) {
	f.Add("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n", "/a")
	f.Add(`30 22 0:25 / /a\040b\134 rw`, "/a b\\")
	f.Fuzz(func(t *testing.T, table, dir string) {
		got, err := mountBelow(strings.NewReader(table), dir)
		if err == nil && got != "" && got != dir && !strings.HasPrefix(got, dir+"/") {
			t.Errorf("%q is not below %q", got, dir)
		}
	})
}

func TestNothingIsRemovedUnderAMount(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "u1", "volumes", "v", "data")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	table := fmt.Sprintf("30 22 0:25 / %s rw - tmpfs tmpfs rw\n", filepath.Dir(file))
	err := removeUnmounted(strings.NewReader(table), dir, "u1")
	if err == nil || !strings.Contains(err.Error(), "a file system is mounted at "+filepath.Dir(file)) {
		t.Errorf("error is %v, want the mount", err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("data: %v", err)
	}
	if err := removeUnmounted(strings.NewReader(""), dir, "u1"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("data after the mount is gone: %v, want none", err)
	}
}

func TestCgroupDirs(t *testing.T) {
	cpu, memory := t.TempDir(), t.TempDir()
	pod := filepath.Join("kubepods", "podu1")
	if err := os.MkdirAll(filepath.Join(cpu, pod), 0o755); err != nil {
		t.Fatal(err)
	}
	dirs := CgroupDirs{cpu, memory}
	if err := dirs.RemoveCgroup(t.Context(), "/"+pod); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(cpu, pod)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("cgroup: %v, want none", err)
	}
	if err := os.MkdirAll(filepath.Join(memory, pod, "busy"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := dirs.RemoveCgroup(t.Context(), "/"+pod); err == nil {
		t.Error("a cgroup in use was removed")
	}
}

// TestCgroupThatIsBusyForAMoment removes a cgroup whose last process has just died.
func TestCgroupThatIsBusyForAMoment(t *testing.T) {
	tests := []struct {
		name  string
		busy  int
		wants error
		calls int
	}{
		{name: "free", busy: 0, calls: 1},
		{name: "for a moment", busy: 3, calls: 4},
		{name: "for good", busy: 100, wants: unix.EBUSY, calls: 8},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				err := whileBusy(t.Context(), func() error {
					if calls++; calls <= tt.busy {
						return fmt.Errorf("remove: %w", unix.EBUSY)
					}
					return nil
				})
				if !errors.Is(err, tt.wants) || calls != tt.calls {
					t.Errorf("%d calls, error %v, want %d calls and %v", calls, err, tt.calls, tt.wants)
				}
			})
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := whileBusy(ctx, func() error { return unix.EBUSY }); !errors.Is(err, unix.EBUSY) {
		t.Errorf("error of a cancelled removal is %v, want EBUSY", err)
	}
}

// TestLogsOfASimilarUID removes the logs of a pod whose UID ends the UID of another.
func TestLogsOfASimilarUID(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"default_web_b", "default_web_a_b"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := &Syncer{disk: localDisk{}, cfg: Config{Node: podspec.Node{Logs: dir}}}
	if err := s.removeLogDirs("b"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "default_web_b")); err == nil {
		t.Error("the logs of the pod are still there")
	}
	if _, err := os.Stat(filepath.Join(dir, "default_web_a_b")); err != nil {
		t.Errorf("the logs of the other pod: %v", err)
	}
}
