package testnode

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseMountInfo(t *testing.T) {
	const text = `23 28 0:21 / /proc rw,nosuid shared:13 - proc proc rw
30 24 0:26 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
31 28 8:1 /a /var/lib/with\040blank/m rw shared:1 master:2 - ext4 /dev/sda1 rw
no mount line
`
	want := []mount{
		{"/proc", "proc"},
		{"/sys/fs/cgroup/cpu", "cgroup"},
		{"/var/lib/with blank/m", "ext4"},
	}
	got := parseMountInfo(text)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(mount{})); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
}

func TestParsePIDs(t *testing.T) {
	if diff := cmp.Diff([]int{7, 1234}, parsePIDs("7\n1234\n0\nx\n")); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
}

func TestZombieIsNoProcess(t *testing.T) {
	if isZombie(os.Getpid()) {
		t.Error("we are no zombie")
	}
	child := exec.CommandContext(t.Context(), "true")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	err := Eventually(t.Context(), pollPeriod*100, "the child is a zombie", func(context.Context) error {
		if isZombie(child.Process.Pid) {
			return nil
		}
		return errors.New("it still runs")
	})
	if err != nil {
		t.Error(err)
	}
	if err := child.Wait(); err != nil {
		t.Error(err)
	}
	if !isZombie(child.Process.Pid) {
		t.Error("a process that is gone holds nothing either")
	}
}

func TestArchiveHoldsProgramAndItsDigest(t *testing.T) {
	var first, second bytes.Buffer
	for _, w := range []io.Writer{&first, &second} {
		if err := writeArchive(w, "example.test/a:1", "prog", []byte("program")); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same program gave two different archives")
	}
	files := readTar(t, first.Bytes())
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil || len(manifest) != 1 {
		t.Fatalf("manifest %s: %v", files["manifest.json"], err)
	}
	if diff := cmp.Diff([]string{"example.test/a:1"}, manifest[0].RepoTags); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	var config struct {
		Config struct{ Entrypoint []string }
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	if err := json.Unmarshal(files[manifest[0].Config], &config); err != nil {
		t.Fatal(err)
	}
	layer := files[manifest[0].Layers[0]]
	if diff := cmp.Diff([]string{"sha256:" + digest(layer)}, config.RootFS.DiffIDs); diff != "" {
		t.Errorf("layer digests (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"/prog"}, config.Config.Entrypoint); diff != "" {
		t.Errorf("entrypoint (-want +got):\n%s", diff)
	}
	if got := string(readTar(t, layer)["prog"]); got != "program" {
		t.Errorf("program in the layer: %q", got)
	}
}

func readTar(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for archive := tar.NewReader(bytes.NewReader(data)); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = content
	}
}

func TestParseCgroups(t *testing.T) {
	want := map[string]string{"memory": "/a", "cpu": "/b:c", "cpuacct": "/b:c", "": "/"}
	got := parseCgroups("9:memory:/a\n4:cpu,cpuacct:/b:c\n0::/\nnonsense\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("control groups (-want +got):\n%s", diff)
	}
}

func TestIsDead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	if isDead(t.Context(), path) {
		t.Error("somebody listens")
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if !isDead(t.Context(), path) {
		t.Error("nobody listens any more")
	}
	if isDead(t.Context(), path+"-missing") {
		t.Error("a socket that is not there cannot be removed")
	}
}
