package images

import (
	"encoding/json"
	"fmt"
	goruntime "runtime"
)

// image is one image of an archive.
type image struct {
	ref    string
	layers []string // Names of layers, the lowest first.
	config config
}

// config is what an image says of the containers made from it: the part of the image
// specification v1.2 (https://github.com/moby/docker-image-spec) that is used here.
type config struct {
	Entrypoint []string          `json:",omitempty"`
	Cmd        []string          `json:",omitempty"`
	Env        []string          `json:",omitempty"`
	User       string            `json:",omitempty"`
	WorkingDir string            `json:",omitempty"`
	Labels     map[string]string `json:",omitempty"`
}

// defaultPath is the PATH of Debian's own images.
const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// encode returns the configuration file of an image on these layers. The label with the
// reference makes two images with the same content different, as their tags promise.
func (i image) encode(layers map[string]layer) ([]byte, error) {
	c := i.config
	c.Labels = map[string]string{"org.opencontainers.image.ref.name": i.ref}
	if len(c.Env) == 0 {
		c.Env = []string{defaultPath}
	}
	if c.WorkingDir == "" {
		c.WorkingDir = "/"
	}
	diffs := make([]string, 0, len(i.layers))
	for _, name := range i.layers {
		l, ok := layers[name]
		if !ok {
			return nil, fmt.Errorf("image %s: there is no layer %q", i.ref, name)
		}
		diffs = append(diffs, "sha256:"+l.digest)
	}
	return json.Marshal(map[string]any{
		"architecture": goruntime.GOARCH,
		"os":           "linux",
		"config":       c,
		"rootfs":       map[string]any{"type": "layers", "diff_ids": diffs},
	})
}
