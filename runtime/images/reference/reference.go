package reference

import (
	"errors"
	"fmt"
	"strings"
)

// ErrInvalid is the kind of every error of Parse.
var ErrInvalid = errors.New("invalid reference format")

const (
	// defaultRegistry holds the images whose name has no registry.
	defaultRegistry = "docker.io"
	// oldDefaultRegistry is what it was called before.
	oldDefaultRegistry = "index.docker.io"
	// officialPath holds the images of the default registry that have no path.
	officialPath = "library/"
	// defaultTag is that of a name with neither tag nor digest.
	defaultTag = "latest"
	// maxName and maxTag are the longest path and tag that registries
	// take (https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pulling-manifests).
	maxName = 255
	maxTag  = 128
)

// Reference is the name of an image in its parts. The zero value names nothing.
type Reference struct {
	// Name is what was written before tag and digest.
	Name string
	// Registry is the host, with the port if one is written.
	Registry string
	// Path is the repository in the registry, such as "library/web".
	Path string
	// Tag is the tag that counts; it is empty if there is only a digest.
	Tag string
	// Digest is like "sha256:" and 64 hexadecimal digits; it may be empty.
	Digest string
}

// Parse reads the name of an image. The error wraps ErrInvalid and says what is
// wrong with the name.
func Parse(name string) (Reference, error) {
	ref, err := parse(name)
	if err != nil {
		return Reference{}, fmt.Errorf("parse image name %q: %w: %w", name, ErrInvalid, err)
	}
	return ref, nil
}

// Repository returns registry and path, such as "docker.io/library/web". That is what
// credentials are looked up by.
func (r Reference) Repository() string { return r.Registry + "/" + r.Path }

// String returns the whole name with nothing left to defaults. Parse gives the same
// parts for it.
func (r Reference) String() string {
	return r.Repository() + r.suffix()
}

// Tagged returns the name as it was written, with the tag latest if it had neither tag
// nor digest. That is what a runtime is asked for.
func (r Reference) Tagged() string { return r.Name + r.suffix() }

// FloatingTag reports whether the name stands for whatever is newest: the tag is
// latest and there is no digest. The API pulls such images always unless told
// otherwise (https://kubernetes.io/docs/concepts/containers/images/#imagepullpolicy-defaulting).
func (r Reference) FloatingTag() bool { return r.Tag == defaultTag && r.Digest == "" }

func (r Reference) suffix() string {
	var text string
	if r.Tag != "" {
		text = ":" + r.Tag
	}
	if r.Digest != "" {
		text += "@" + r.Digest
	}
	return text
}

func parse(name string) (Reference, error) {
	var ref Reference
	rest, digest, found := strings.Cut(name, "@")
	if found {
		if err := checkDigest(digest); err != nil {
			return Reference{}, err
		}
		ref.Digest = digest
	}
	ref.Name, ref.Tag = cutTag(rest)
	switch {
	case len(ref.Name) < len(rest):
		if err := checkTag(ref.Tag); err != nil {
			return Reference{}, err
		}
	case ref.Digest == "":
		ref.Tag = defaultTag
	}
	ref.Registry, ref.Path = split(ref.Name)
	// Runtimes take a host name with underscores, too, as the beginning of a path.
	if err := checkRegistry(ref.Registry); err != nil && checkPath(ref.Registry) != nil {
		return Reference{}, err
	}
	if err := checkPath(ref.Path); err != nil {
		return Reference{}, err
	}
	if len(ref.Path) > maxName {
		return Reference{}, fmt.Errorf("the path has over %d characters", maxName)
	}
	if isHex(name) && len(name) == 64 {
		return Reference{}, errors.New("64 hexadecimal digits are an id, not a name")
	}
	return ref, nil
}

// cutTag cuts the tag off a name without digest. A colon before the last slash
// belongs to the port of the registry.
func cutTag(name string) (rest, tag string) {
	i := strings.LastIndexByte(name, ':')
	if i < 0 || i < strings.LastIndexByte(name, '/') || i < strings.LastIndexByte(name, ']') {
		return name, ""
	}
	return name[:i], name[i+1:]
}

// split tells the registry from the path. The first part is a registry if no path
// could begin like it.
func split(name string) (registry, path string) {
	first, rest, found := strings.Cut(name, "/")
	if !found || (first != "localhost" && !strings.ContainsAny(first, ".:") && strings.ToLower(first) == first) {
		registry, path = defaultRegistry, name
	} else {
		registry, path = first, rest
	}
	if registry == oldDefaultRegistry {
		registry = defaultRegistry
	}
	if registry == defaultRegistry && !strings.Contains(path, "/") && path != "" {
		path = officialPath + path
	}
	return registry, path
}
