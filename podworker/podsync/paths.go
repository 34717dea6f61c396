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
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

// Modes of what a hostPath volume creates
// (https://kubernetes.io/docs/concepts/storage/volumes/#hostpath-volume-types).
const (
	userDirMode  = 0o755
	userFileMode = 0o644
)

// volumeError says that a volume of the pod cannot be mounted.
type volumeError struct {
	volume string
	err    error
}

// Error has the words of the kubelet's event.
func (e *volumeError) Error() string {
	return fmt.Sprintf("MountVolume.SetUp failed for volume %q : %v", e.volume, e.err)
}

func (e *volumeError) Unwrap() error { return e.err }

// fulfil makes what a configuration relies on, in order.
func (s *Syncer) fulfil(ctx context.Context, paths []podspec.Path) error {
	for i := range paths {
		p := &paths[i]
		err := s.fulfilOne(ctx, p)
		if err != nil && p.Volume != "" {
			return &volumeError{volume: p.Volume, err: err}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Syncer) fulfilOne(ctx context.Context, p *podspec.Path) error {
	mounts := s.cfg.Parts.Mounts
	switch p.Kind {
	case podspec.SubPath, podspec.MemoryDir:
		switch {
		case mounts == nil:
			return errors.New("this agent mounts nothing")
		case p.Kind == podspec.SubPath:
			return mounts.Bind(ctx, p.Base, p.Sub, p.Path, p.Mode)
		}
		if err := mounts.Memory(ctx, p.Path, p.Size, p.Mode); err != nil {
			return err
		}
		return own(p.Path, p)
	case podspec.OwnDir, podspec.OwnFile, podspec.UserPath:
	}
	return s.disk.make(p)
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
		err = own(made, p)
	}
	if err == nil {
		err = os.Rename(made, p.Path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(made))
	}
	return nil
}

// own gives a directory to the group that is to own it and what is made in it.
func own(path string, p *podspec.Path) error {
	if p.Group == nil {
		return nil
	}
	if err := os.Chown(path, -1, int(*p.Group)); err != nil {
		return err
	}
	return os.Chmod(path, p.Mode|fs.ModeSetgid)
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

// userPath checks a hostPath volume, or makes it if its type says so.
func userPath(p *podspec.Path) error {
	if p.Type == corev1.HostPathUnset {
		return nil
	}
	info, err := os.Stat(p.Path)
	if errors.Is(err, fs.ErrNotExist) {
		switch p.Type {
		case corev1.HostPathDirectoryOrCreate:
			return os.MkdirAll(p.Path, userDirMode)
		case corev1.HostPathFileOrCreate:
			return touch(p.Path)
		}
	}
	if err != nil {
		return fmt.Errorf("hostPath type check failed: %w", err)
	}
	kind, fits := typeOf(p.Type)
	if kind == "" {
		return fmt.Errorf("hostPath type check failed: type %q is not known", p.Type)
	}
	if !fits(info.Mode()) {
		return fmt.Errorf("hostPath type check failed: %s is not a %s", p.Path, kind)
	}
	return nil
}

func touch(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, userFileMode)
	if err != nil {
		return err
	}
	return f.Close()
}

// typeOf returns what a type of hostPath is called and how it is recognised.
func typeOf(t corev1.HostPathType) (string, func(fs.FileMode) bool) {
	switch t {
	case corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate:
		return "directory", fs.FileMode.IsDir
	case corev1.HostPathFile, corev1.HostPathFileOrCreate:
		return "file", fs.FileMode.IsRegular
	case corev1.HostPathSocket:
		return "socket", func(m fs.FileMode) bool { return m&fs.ModeSocket != 0 }
	case corev1.HostPathCharDev:
		return "character device", func(m fs.FileMode) bool { return m&fs.ModeCharDevice != 0 }
	case corev1.HostPathBlockDev:
		return "block device", func(m fs.FileMode) bool { return m&fs.ModeDevice != 0 && m&fs.ModeCharDevice == 0 }
	}
	return "", nil
}

// podDirMode is the mode of the directory of a pod, as the kubelet makes it.
const podDirMode = 0o750

func podDir(path string) *podspec.Path {
	return &podspec.Path{Kind: podspec.OwnDir, Path: path, Mode: podDirMode}
}
