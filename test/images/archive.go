package images

import (
	"archive/tar"
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
)

// manifest is an image in the list that an archive begins with: the file names of its
// configuration and layers.
type manifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// saveArchive writes the images and their layers to path, in the format of "docker
// save": manifest.json, a configuration per image, each layer once.
func saveArchive(path string, images []image, layers map[string]layer) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(file, 1<<20)
	err = errors.Join(writeArchive(buffered, images, layers), buffered.Flush(), file.Close())
	if err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	return nil
}

func writeArchive(w io.Writer, images []image, layers map[string]layer) error {
	var entries []entry
	manifests := make([]manifest, 0, len(images))
	for _, i := range images {
		config, err := i.encode(layers)
		if err != nil {
			return err
		}
		m := manifest{Config: digestOf(config) + ".json", RepoTags: []string{i.ref}}
		for _, name := range i.layers {
			m.Layers = append(m.Layers, name+".tar")
		}
		manifests = append(manifests, m)
		entries = append(entries, entry{name: m.Config, mode: 0o644, data: config})
	}
	list, err := json.Marshal(manifests)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(w)
	entries = append([]entry{{name: "manifest.json", mode: 0o644, data: list}}, entries...)
	if err := addEntries(archive, entries); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(layers)) {
		if err := addLayer(archive, name+".tar", layers[name]); err != nil {
			return fmt.Errorf("add layer %s: %w", name, err)
		}
	}
	return archive.Close()
}

func addLayer(archive *tar.Writer, name string, l layer) error {
	file, err := os.Open(l.path)
	if err != nil {
		return err
	}
	defer file.Close()
	header := &tar.Header{Name: name, Mode: 0o644, Size: l.size, ModTime: epoch(), Format: tar.FormatPAX}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return err
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
