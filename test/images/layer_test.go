package images

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTreeKeepsLinksModesAndNothingElse(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"bin", "dev"} {
		must(t, os.Mkdir(filepath.Join(root, dir), 0o755))
	}
	must(t, os.WriteFile(filepath.Join(root, "bin/a"), []byte("program"), 0o600))
	must(t, os.Chmod(filepath.Join(root, "bin/a"), 0o755|os.ModeSetuid))
	must(t, os.Link(filepath.Join(root, "bin/a"), filepath.Join(root, "bin/b")))
	must(t, os.Symlink("a", filepath.Join(root, "bin/c")))
	must(t, os.WriteFile(filepath.Join(root, "dev/null"), nil, 0o600))

	write := func() []byte {
		var buffer bytes.Buffer
		archive := tar.NewWriter(&buffer)
		must(t, addTree(archive, root, func(name string) bool { return name != "dev/null" }))
		must(t, archive.Close())
		return buffer.Bytes()
	}
	first := write()
	must(t, os.Chtimes(filepath.Join(root, "bin/a"), time.Time{}, time.Now().Add(-time.Hour)))
	if !bytes.Equal(first, write()) {
		t.Error("the bytes depend on the dates of files")
	}

	type file struct {
		Type byte
		Mode int64
		Link string
		Size int64
	}
	got := map[string]file{}
	archive := tar.NewReader(bytes.NewReader(first))
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		got[h.Name] = file{h.Typeflag, h.Mode, h.Linkname, h.Size}
	}
	want := map[string]file{
		"bin/":  {tar.TypeDir, 0o755, "", 0},
		"bin/a": {tar.TypeReg, 0o4755, "", 7},
		"bin/b": {tar.TypeLink, 0o4755, "bin/a", 0},
		"bin/c": {tar.TypeSymlink, 0o777, "a", 0},
		"dev/":  {tar.TypeDir, 0o755, "", 0},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestLayerIsNamedByItsBytes(t *testing.T) {
	l := saveTestLayer(t, "layer", entry{name: "uploads/", mode: 0o755})
	data, err := os.ReadFile(l.path)
	must(t, err)
	if l.digest != sum(data) || l.size != int64(len(data)) {
		t.Errorf("digest %s and size %d, the file has %s and %d", l.digest, l.size, sum(data), len(data))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
