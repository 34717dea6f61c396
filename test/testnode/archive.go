package testnode

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	goruntime "runtime"
)

// writeArchive writes an image with one static program as its only file, besides
// an empty /tmp, in the format of "docker save": a manifest, a configuration and
// one layer. The same program gives the same bytes. Format: image specification
// v1.2, https://github.com/moby/docker-image-spec.
func writeArchive(w io.Writer, ref, entrypoint string, program []byte) error {
	var layer bytes.Buffer
	err := writeTar(&layer, []tarFile{
		{name: "tmp/", mode: 0o1777},
		{name: entrypoint, mode: 0o755, data: program},
	})
	if err != nil {
		return fmt.Errorf("write layer: %w", err)
	}
	config, err := json.Marshal(map[string]any{
		"architecture": goruntime.GOARCH,
		"os":           "linux",
		"config": map[string]any{
			"Entrypoint": []string{"/" + entrypoint},
			"Env":        []string{"PATH=/"},
			"WorkingDir": "/",
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(layer.Bytes())}},
	})
	if err != nil {
		return fmt.Errorf("write image configuration: %w", err)
	}
	configName := digest(config) + ".json"
	manifest, err := json.Marshal([]map[string]any{{
		"Config": configName, "RepoTags": []string{ref}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return fmt.Errorf("write image manifest: %w", err)
	}
	return writeTar(w, []tarFile{
		{name: "manifest.json", mode: 0o644, data: manifest},
		{name: configName, mode: 0o644, data: config},
		{name: "layer.tar", mode: 0o644, data: layer.Bytes()},
	})
}

// archiveRefs returns the names of the images in an archive of that format.
func archiveRefs(path string) ([]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	for archive := tar.NewReader(file); ; {
		header, err := archive.Next()
		if err != nil {
			return nil, fmt.Errorf("find manifest.json: %w", err)
		}
		if header.Name != "manifest.json" {
			continue
		}
		var manifests []struct{ RepoTags []string }
		if err := json.NewDecoder(archive).Decode(&manifests); err != nil {
			return nil, fmt.Errorf("decode manifest.json: %w", err)
		}
		var refs []string
		for _, m := range manifests {
			refs = append(refs, m.RepoTags...)
		}
		return refs, nil
	}
}

// tarFile is a file of an archive, or a directory when its name ends in a slash.
type tarFile struct {
	name string
	mode int64
	data []byte
}

func writeTar(w io.Writer, files []tarFile) error {
	archive := tar.NewWriter(w)
	for _, file := range files {
		header := &tar.Header{Name: file.name, Mode: file.mode, Size: int64(len(file.data)), Format: tar.FormatPAX}
		err := archive.WriteHeader(header)
		if err == nil {
			_, err = archive.Write(file.data)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("add %s: %w", file.name, err), archive.Close())
		}
	}
	return archive.Close()
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
