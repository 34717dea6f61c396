//go:build linux

package volume_test

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

// TestKernelShare: once, whatever is mounted there already, and with all below it.
func TestKernelShare(t *testing.T) {
	needsMounts(t)
	parent := root(t)
	dir := parent + "/kubelet"
	must(t, os.MkdirAll(dir+"/below", 0o755))
	must(t, unix.Mount("tmpfs", dir+"/below", "tmpfs", 0, ""))
	for range 2 {
		must(t, volume.Mounter{}.Share(t.Context(), dir))
		for _, path := range []string{dir, dir + "/below"} {
			if got := mountOptions(t, path); !strings.Contains(got, " shared:") {
				t.Errorf("%s is not shared: %s", path, got)
			}
		}
	}
	if got := strings.Count(strings.Join(mountsBelow(t, dir), " ")+" ", dir+" "); got != 1 {
		t.Errorf("it is mounted %d times, want once", got)
	}
	must(t, volume.Mounter{}.Share(t.Context(), dir+"/new"))
	modeAndGroup(t, dir+"/new", os.ModeDir|0o750, 0)
	if got := mountsBelow(t, dir+"/new"); len(got) > 0 {
		t.Errorf("what is on a shared mount is mounted again: %v", got)
	}
}

// TestKernelMemoryMaySwap: not where the kernel knows better or does not swap.
func TestKernelMemoryMaySwap(t *testing.T) {
	needsMounts(t)
	got, err := volume.Mounter{}.MemoryMaySwap()
	if err != nil {
		t.Fatal(err)
	}
	probe := root(t)
	refused := unix.Mount("tmpfs", probe, "tmpfs", 0, "noswap") != nil
	swaps, err := os.ReadFile("/proc/swaps")
	if want := refused && err == nil && len(strings.Split(strings.TrimSpace(string(swaps)), "\n")) > 1; got != want {
		t.Errorf("it is %t, want %t, with noswap refused: %t, and\n%s", got, want, refused, swaps)
	}
}
