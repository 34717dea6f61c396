package runtimetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// defaultImageSize is the size of an image that states none: 1 MiB. CRI demands one.
const defaultImageSize = 1 << 20

// Image is an image the runtime has or can get.
type Image struct {
	// Name is a reference as users write it; "web" is docker.io/library/web:latest.
	Name string
	// Size in bytes; zero means 1 MiB.
	Size uint64
	// Pull is what a pull does; nil means that the image is present already.
	Pull *Pull
}

// Pull describes a pull of an image.
type Pull struct {
	// Takes is how long it takes, before it fails too.
	Takes time.Duration
	// Err makes it fail; a gRPC status keeps its code.
	Err error
}

// imageStore holds images under their full names. The world's lock guards it.
type imageStore struct {
	// any is set if unknown names can be pulled.
	any     bool
	known   map[string]Image
	present map[string]*runtimeapi.Image
}

func newImageStore(images []Image) imageStore {
	s := imageStore{any: images == nil, known: make(map[string]Image), present: make(map[string]*runtimeapi.Image)}
	for _, i := range images {
		s.set(i)
	}
	return s
}

func (s *imageStore) set(i Image) {
	name := fullName(i.Name)
	s.known[name] = i
	delete(s.present, name)
	if i.Pull == nil {
		// An image that was imported has no digest of a repository.
		s.present[name] = newImage(name, i.Size)
		s.present[name].RepoDigests = nil
	}
}

// fullName completes a reference the way container tools do: registry docker.io,
// repository library/, tag latest.
func fullName(name string) string {
	first, _, more := strings.Cut(name, "/")
	switch {
	case !more:
		name = "docker.io/library/" + name
	case first != "localhost" && !strings.ContainsAny(first, ".:"):
		name = "docker.io/" + name
	}
	if last := name[strings.LastIndex(name, "/")+1:]; !strings.ContainsAny(last, ":@") {
		name += ":latest"
	}
	return name
}

func newImage(name string, size uint64) *runtimeapi.Image {
	if size == 0 {
		size = defaultImageSize
	}
	sum := sha256.Sum256([]byte(name))
	digest := "sha256:" + hex.EncodeToString(sum[:])
	image := &runtimeapi.Image{Id: digest, Size: size}
	repo, _, byDigest := strings.Cut(name, "@")
	if byDigest {
		image.RepoDigests = []string{name}
		return image
	}
	image.RepoTags = []string{name}
	if i := strings.LastIndex(repo, ":"); i > strings.LastIndex(repo, "/") {
		repo = repo[:i]
	}
	image.RepoDigests = []string{repo + "@" + digest}
	return image
}

// imageRef is how a container names the image it runs.
func imageRef(i *runtimeapi.Image) string {
	if len(i.GetRepoDigests()) > 0 {
		return i.GetRepoDigests()[0]
	}
	return i.GetId()
}

// find looks up a present image by name, digest or id; nil means none.
func (s *imageStore) find(name string) *runtimeapi.Image {
	if i := s.present[fullName(name)]; i != nil {
		return i
	}
	for _, i := range s.present {
		if i.GetId() == name || i.GetId() == "sha256:"+name || slices.Contains(i.GetRepoDigests(), fullName(name)) {
			return i
		}
	}
	return nil
}

func (s *imageStore) list() []*runtimeapi.Image {
	var all []*runtimeapi.Image
	for _, name := range slices.Sorted(maps.Keys(s.present)) {
		all = append(all, clone(s.present[name]))
	}
	return all
}

func (s *imageStore) remove(name string) {
	if i := s.find(name); i != nil {
		maps.DeleteFunc(s.present, func(_ string, p *runtimeapi.Image) bool { return p == i })
	}
}

// pullImage pulls in the caller's time.
func (w *world) pullImage(ctx context.Context, name string) (string, error) {
	if name == "" {
		return "", invalid("PullImage: no image")
	}
	full := fullName(name)
	w.mu.Lock()
	known, ok := w.images.known[full]
	ok = ok || w.images.any
	w.mu.Unlock()
	if known.Pull != nil {
		if err := sleep(ctx, known.Pull.Takes); err != nil {
			return "", err
		}
	}
	if !ok {
		return "", status.Errorf(codes.NotFound, "failed to pull and unpack image %q: failed to resolve reference %q: %s: not found", full, full, full)
	}
	if known.Pull != nil && known.Pull.Err != nil {
		text := fmt.Sprintf("failed to pull and unpack image %q: %s", full, status.Convert(known.Pull.Err).Message())
		return "", status.Error(status.Code(known.Pull.Err), text)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.images.present[full] == nil {
		w.images.present[full] = newImage(full, known.Size)
	}
	return w.images.present[full].GetId(), nil
}

// sleep waits for d or the end of ctx, whose error it returns as a status.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}
