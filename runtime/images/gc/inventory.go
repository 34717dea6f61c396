package gc

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime/images/reference"
)

// startGrace is how long after its image was given to a pod a container may take to
// show up in the runtime.
const startGrace = 2 * time.Minute

// inventory is what is remembered of images and containers between passes.
type inventory struct {
	images map[string]history
	// mounts are the images that each container has as volumes, which never change.
	mounts map[string][]string
}

// history is what happened with an image.
type history struct {
	firstSeen time.Time
	lastUsed  time.Time
}

func (v *inventory) forget(id string) { delete(v.images, id) }

// look finds out which images there are and what for.
func (c *Collector) look(ctx context.Context, now time.Time) ([]Image, error) {
	list, err := c.runtime.ListImages(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	// Containers are listed after images: what a new container has is then among them.
	used, err := c.usedNames(ctx)
	if err != nil {
		return nil, err
	}
	var given map[string]time.Time
	if c.cfg.Given != nil {
		given = c.cfg.Given()
	}
	for _, name := range c.keep {
		used[name] = max(used[name], kept)
	}
	histories := make(map[string]history, len(list))
	images := make([]Image, 0, len(list))
	for _, i := range list {
		id := i.GetId()
		h, known := c.seen.images[id]
		if !known {
			h.firstSeen = now
		}
		use := useOf(i, used)
		if use == inUse {
			h.lastUsed = now
		}
		if at, ok := given[id]; ok {
			if now.Sub(at) < startGrace {
				use = max(use, kept)
			}
			if at.After(h.lastUsed) {
				h.lastUsed = at
			}
		}
		histories[id] = h
		images = append(images, Image{
			ID: id, Size: i.GetSize(), Kept: use != unused || i.GetPinned() || id == "",
			FirstSeen: h.firstSeen, LastUsed: h.lastUsed,
		})
	}
	c.seen.images = histories
	return images, nil
}

// fullNames returns names as they are and, if they are short, as runtimes list them.
func fullNames(names []string) []string {
	all := slices.Clone(names)
	for _, name := range names {
		if ref, err := reference.Parse(name); err == nil {
			all = append(all, ref.String())
		}
	}
	return all
}

// use is what an image is kept for.
type use uint8

const (
	unused use = iota
	// kept means that the configuration names it, or that a container is to start.
	kept
	// inUse means that a container has it.
	inUse
)

// useOf looks an image up by all its names. A container may know it by a tag that stands
// for another image by now; both are kept.
func useOf(i *runtimeapi.Image, used map[string]use) use {
	u := used[i.GetId()]
	for _, names := range [][]string{i.GetRepoTags(), i.GetRepoDigests()} {
		for _, name := range names {
			u = max(u, used[name])
		}
	}
	return u
}

// usedNames returns names and ids of images that containers have, running or not.
func (c *Collector) usedNames(ctx context.Context) (map[string]use, error) {
	containers, err := c.runtime.ListContainers(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	used := make(map[string]use)
	mounts := make(map[string][]string, len(containers))
	for _, one := range containers {
		for _, name := range []string{one.GetImageId(), one.GetImageRef(), one.GetImage().GetImage()} {
			used[name] = inUse
		}
		mounted, err := c.mountedImages(ctx, one.GetId())
		if err != nil {
			return nil, err
		}
		mounts[one.GetId()] = mounted
		for _, name := range mounted {
			used[name] = inUse
		}
	}
	delete(used, "")
	c.seen.mounts = mounts
	return used, nil
}

// mountedImages returns the images that a container has as volumes. A container is asked
// once in its life.
func (c *Collector) mountedImages(ctx context.Context, id string) ([]string, error) {
	if mounted, ok := c.seen.mounts[id]; ok {
		return mounted, nil
	}
	resp, err := c.runtime.ContainerStatus(ctx, id, false)
	if status.Code(err) == codes.NotFound {
		return nil, nil // it was removed meanwhile
	}
	if err != nil {
		return nil, fmt.Errorf("find the image volumes of container %s: %w", id, err)
	}
	var mounted []string
	for _, m := range resp.GetStatus().GetMounts() {
		if name := m.GetImage().GetImage(); name != "" {
			mounted = append(mounted, name)
		}
	}
	return mounted, nil
}
