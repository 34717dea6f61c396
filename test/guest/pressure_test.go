package guest_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/test/pressure"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// hog is the program of the images: hack/images/hog, which without arguments only waits.
const hog = "/hog"

// TestInGuestPodsThatTakeTooMuch has containers take memory beyond their own limits, and
// beyond what all pods may have, with control groups of version 2.
func TestInGuestPodsThatTakeTooMuch(t *testing.T) {
	client := startContainerd(t)
	cfg := onNode(t, client, t.TempDir())
	importImage(t, client, pressure.Image().Ref, hog)
	t.Run("limits", func(t *testing.T) { pressure.Limits(t, cfg) })
	t.Run("out of memory", func(t *testing.T) { pressure.OutOfMemory(t, cfg) })
	t.Run("a child out of memory", func(t *testing.T) { pressure.ChildOutOfMemory(t, cfg) })
	t.Run("a hog of memory", func(t *testing.T) { pressure.MemoryHog(t, cfg, 220, 150) })
}

// TestInGuestFullDisk fills a small disk that has all data of node and runtime.
func TestInGuestFullDisk(t *testing.T) {
	if os.Getenv("NODEKIT_VM") == "" {
		t.Skip("this is no guest")
	}
	small := t.TempDir()
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=192m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(small, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	c := startContainerdIn(t, small)
	cfg := onNode(t, c, small)
	importImage(t, c, pressure.Image().Ref, hog)
	pressure.DiskPressure(t, cfg, pressure.Disk{
		Dir: small,
		FillImage: func(mib int) error {
			// It is there twice: as the layer that was imported, and unpacked.
			file := filepath.Join(t.TempDir(), "big")
			f, err := os.Create(file)
			if err == nil {
				_, err = io.CopyN(f, rand.Reader, int64(mib)<<20/2)
			}
			if err == nil {
				err = f.Close()
			}
			if err == nil {
				importImage(t, c, "nodekit.test/big:1", file)
			}
			return err
		},
		Images: func(ctx context.Context) (int, error) {
			list, err := c.ListImages(ctx, nil)
			return len(list), err
		},
	})
}

// guestRuntime is the guest's containerd.
type guestRuntime struct {
	*runtime.Client
	socket string
}

// onNode returns where a node of this guest has its data.
func onNode(t *testing.T, c *guestRuntime, dir string) pressure.Config {
	t.Helper()
	cgroups := fmt.Sprintf("/node-%d", os.Getpid())
	if err := os.Mkdir(filepath.Join("/sys/fs/cgroup", cgroups), 0o755); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	return pressure.Config{
		Socket: c.socket, Root: filepath.Join(dir, "node"), Logs: filepath.Join(dir, "pods"), CgroupRoot: cgroups, Patience: patience,
	}
}

// importImage makes an image of one file.
func importImage(t *testing.T, c *guestRuntime, ref, file string) {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "image.tar")
	if err := testnode.ArchiveProgram(archive, ref, file); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "ctr", "--address", c.socket, "--namespace", "k8s.io", "images", "import", archive).CombinedOutput()
	if err != nil {
		t.Fatalf("import image %s: %v: %s", ref, err, out)
	}
	if err := os.Remove(archive); err != nil {
		t.Error(err)
	}
}
