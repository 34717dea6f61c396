package podsync

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

// fulfil makes what the configuration of a container relies on, in order.
func (s *Syncer) fulfil(ctx context.Context, container string, paths []podspec.Path) error {
	for i := range paths {
		p := &paths[i]
		if p.Kind != podspec.SubPath {
			if err := s.disk.make(p); err != nil {
				return err
			}
			continue
		}
		if s.cfg.Parts.Mounts == nil {
			return errors.New("this agent mounts nothing")
		}
		if err := s.cfg.Parts.Mounts.Bind(ctx, p.Base, p.Sub, p.Path, p.Mode); err != nil {
			return fmt.Errorf("failed to prepare subPath for volumeMount %q of container %q: %w", p.Volume, container, err)
		}
	}
	return nil
}

// ownDir makes a directory; its mode does not depend on the umask.
func ownDir(p *podspec.Path) error {
	if info, err := os.Lstat(p.Path); err == nil && info.IsDir() {
		return nil // a container may have changed the mode of its volume
	}
	parent, name := filepath.Split(p.Path)
	if err := os.MkdirAll(parent, p.Mode&fs.ModePerm); err != nil {
		return err
	}
	// It appears with all it is to have: the next process would not touch it.
	made, err := os.MkdirTemp(parent, "."+name+"-*")
	if err != nil {
		return err
	}
	err = os.Chmod(made, p.Mode)
	if err == nil {
		err = os.Rename(made, p.Path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(made))
	}
	return nil
}

// ownFile writes a file in place: running containers have it mounted, so it keeps
// its inode.
func ownFile(p *podspec.Path) error {
	if old, err := os.ReadFile(p.Path); err == nil && bytes.Equal(old, p.Content) {
		return nil
	}
	f, err := os.OpenFile(p.Path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, p.Mode)
	if err != nil {
		return err
	}
	_, err = f.Write(p.Content)
	return errors.Join(err, f.Chmod(p.Mode), f.Close())
}

// podDirMode is the mode of the directory of a pod, as the kubelet makes it.
const podDirMode = 0o750

func podDir(path string) *podspec.Path {
	return &podspec.Path{Kind: podspec.OwnDir, Path: path, Mode: podDirMode}
}
