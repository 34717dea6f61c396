package images

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// readTar returns the files of a tar by name.
func readTar(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	archive := tar.NewReader(r)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = data
	}
}

func saveTestLayer(t *testing.T, name string, entries ...entry) layer {
	t.Helper()
	l, err := saveLayer(filepath.Join(t.TempDir(), name), files(entries...))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestArchiveHoldsSharedLayerOnceAndEachImage(t *testing.T) {
	layers := map[string]layer{
		"base": saveTestLayer(t, "base", entry{name: "etc/", mode: 0o755}),
		"top":  saveTestLayer(t, "top", entry{name: "program", mode: 0o755, data: []byte("x")}),
	}
	images := []image{
		{ref: "example.test/one:1", layers: []string{"base", "top"}, config: config{Entrypoint: []string{"/program"}, User: "1234"}},
		{ref: "example.test/two:1", layers: []string{"base"}},
	}
	var archive bytes.Buffer
	if err := writeArchive(&archive, images, layers); err != nil {
		t.Fatal(err)
	}
	files := readTar(t, &archive)
	var manifests []manifest
	if err := json.Unmarshal(files["manifest.json"], &manifests); err != nil {
		t.Fatal(err)
	}
	want := []manifest{
		{Config: manifests[0].Config, RepoTags: []string{"example.test/one:1"}, Layers: []string{"base.tar", "top.tar"}},
		{Config: manifests[1].Config, RepoTags: []string{"example.test/two:1"}, Layers: []string{"base.tar"}},
	}
	if diff := cmp.Diff(want, manifests); diff != "" {
		t.Errorf("manifest.json (-want +got):\n%s", diff)
	}
	if len(files) != 5 { // The manifest, two configurations, two layers.
		t.Errorf("the archive holds %d files, want 5", len(files))
	}
	for _, m := range manifests {
		checkConfig(t, files, m)
	}
}

// checkConfig fails unless the configuration is named after its digest and names the
// digests of the layers: what runtimes verify.
func checkConfig(t *testing.T, files map[string][]byte, m manifest) {
	t.Helper()
	if want := sum(files[m.Config]) + ".json"; m.Config != want {
		t.Errorf("configuration is called %s, want %s", m.Config, want)
	}
	var got struct {
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := json.Unmarshal(files[m.Config], &got); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, name := range m.Layers {
		want = append(want, "sha256:"+sum(files[name]))
	}
	if diff := cmp.Diff(want, got.RootFS.DiffIDs); diff != "" {
		t.Errorf("layers of %v (-want +got):\n%s", m.RepoTags, diff)
	}
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

func TestImagesWithSameContentDiffer(t *testing.T) {
	layers := map[string]layer{"base": {digest: "00"}}
	one, err1 := image{ref: "example.test/one:1", layers: []string{"base"}}.encode(layers)
	two, err2 := image{ref: "example.test/one:2", layers: []string{"base"}}.encode(layers)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if digestOf(one) == digestOf(two) {
		t.Error("two tags have one image ID: an update from one to the other would be none")
	}
}

func TestImageOfUnknownLayerIsRefused(t *testing.T) {
	_, err := image{ref: "example.test/one:1", layers: []string{"nowhere"}}.encode(nil)
	if err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("got %v, want an error that names the layer", err)
	}
}
