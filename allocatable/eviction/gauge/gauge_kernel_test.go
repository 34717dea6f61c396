//go:build linux

package gauge_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/allocatable/eviction"
	"github.com/nodekit-go/nodekit/allocatable/eviction/gauge"
)

// mount puts a file system in memory on a directory until the test ends.
func mount(t *testing.T, dir string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m,nr_inodes=100"); err != nil {
		if os.Getenv("REQUIRE_KERNEL") == "1" {
			t.Fatal(err)
		}
		t.Skipf("file systems can't be mounted (REQUIRE_KERNEL=1 makes this a failure): %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestKernelDisks(t *testing.T) {
	dir := t.TempDir()
	images, writes := mount(t, dir+"/images"), mount(t, dir+"/writes")
	for _, tt := range []struct {
		name string
		cfg  gauge.Config
		want eviction.Disks
	}{
		{"one", gauge.Config{NodeFS: dir, ImageFS: dir}, eviction.OneDisk},
		{"images apart", gauge.Config{NodeFS: dir, ImageFS: images}, eviction.ImagesApart},
		{"images alone", gauge.Config{NodeFS: dir, ImageFS: images, ContainerFS: dir}, eviction.ImagesSplit},
		{"three", gauge.Config{NodeFS: dir, ImageFS: images, ContainerFS: writes}, eviction.ImagesApart},
	} {
		g, err := gauge.New(tt.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := g.Disks(); err != nil || got != tt.want {
			t.Errorf("%s: disks are %d (%v), want %d", tt.name, got, err, tt.want)
		}
	}
}

func TestKernelFullDisk(t *testing.T) {
	dir := mount(t, t.TempDir())
	g, err := gauge.New(gauge.Config{NodeFS: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "hog"), make([]byte, 768<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := g.Observe()
	if err != nil {
		t.Fatal(err)
	}
	space, inodes := o[eviction.NodeFSAvailable], o[eviction.NodeFSInodesFree]
	if got := space.Available.String() + "/" + space.Capacity.String(); got != "256Ki/1Mi" {
		t.Errorf("space left is %s", got)
	}
	if got := inodes.Available.String() + "/" + inodes.Capacity.String(); got != "98/100" {
		t.Errorf("inodes left are %s", got)
	}
	mount(t, filepath.Join(dir, "other"))
	taken, err := gauge.Taken(dir)
	if want := (eviction.Disk{Bytes: 768 << 10, Inodes: 2}); err != nil || taken != want {
		t.Errorf("taken are %+v (%v), want %+v: other file systems do not count", taken, err, want)
	}
}
