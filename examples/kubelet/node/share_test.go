package node

import (
	"os"
	goruntime "runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestIsShared(t *testing.T) {
	const table = `20 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw
21 20 0:20 / /var rw - tmpfs tmpfs rw
22 21 0:21 / /var/lib rw master:3 shared:2 - tmpfs tmpfs rw
23 22 0:22 / /var/lib/my\040node rw,shared:9 - tmpfs shared:4 rw
24 20 0:23 / /twice rw shared:5 - tmpfs tmpfs rw
25 24 0:24 / /twice rw - tmpfs tmpfs rw
short line
`
	for _, tt := range []struct {
		dir  string
		want bool
	}{
		{"/etc", true},
		{"/var/log", false},
		{"/var/lib/kubelet", true},
		{"/var/library", false},
		{"/var/lib/my node", false},
		{"/var/lib/my node/pods", false},
		{"/twice/x", false},
	} {
		got, err := isShared(strings.NewReader(table), tt.dir)
		if err != nil || got != tt.want {
			t.Errorf("%s: %t, %v; want %t", tt.dir, got, err, tt.want)
		}
	}
}

// TestShareMounts shares a directory in a mount namespace of its own, twice.
func TestShareMounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount")
	}
	dir := t.TempDir()
	done := make(chan error, 1)
	go func() {
		goruntime.LockOSThread() // never unlocked: the thread goes with its namespace
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
				return err
			}
			if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
				return err
			}
			for range 2 {
				if err := ShareMounts(dir); err != nil {
					return err
				}
			}
			table, err := os.ReadFile("/proc/thread-self/mountinfo")
			if err != nil {
				return err
			}
			if n := strings.Count(string(table), " "+dir+" "); n != 1 {
				t.Errorf("%d mounts at %s, want 1", n, dir)
			}
			shared, err := isShared(strings.NewReader(string(table)), dir)
			if !shared {
				t.Error("it is not shared")
			}
			return err
		}()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
