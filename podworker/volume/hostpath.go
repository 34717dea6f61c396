package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	corev1 "k8s.io/api/core/v1"
)

// Modes of what a hostPath volume creates
// (https://kubernetes.io/docs/concepts/storage/volumes/#hostpath-volume-types).
const (
	hostDirMode  = 0o755
	hostFileMode = 0o644
)

// HostPath checks what a hostPath names, or makes it if its type says so, as for a volume of a
// pod or, by a Provider, for a persistent volume. Nothing of it is ever removed or given to
// somebody else.
func HostPath(source *corev1.HostPathVolumeSource) (Mounted, error) {
	mounted := Mounted{Path: source.Path}
	if source.Type == nil || *source.Type == corev1.HostPathUnset {
		return mounted, nil
	}
	kind, fits := typeOf(*source.Type)
	if kind == "" {
		return Mounted{}, fmt.Errorf("hostPath type check failed: %s: type %q is not known", source.Path, *source.Type)
	}
	info, err := os.Stat(source.Path)
	if errors.Is(err, fs.ErrNotExist) {
		switch *source.Type {
		case corev1.HostPathDirectoryOrCreate:
			return mounted, notMade(source.Path, makeHostDir(source.Path))
		case corev1.HostPathFileOrCreate:
			return mounted, notMade(source.Path, makeHostFile(source.Path))
		}
	}
	if err != nil {
		return Mounted{}, fmt.Errorf("hostPath type check failed: %s is not a %s: %w", source.Path, kind, err)
	}
	if !fits(info.Mode()) {
		return Mounted{}, fmt.Errorf("hostPath type check failed: %s is not a %s", source.Path, kind)
	}
	return mounted, nil
}

func notMade(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("hostPath type check failed: %s does not exist and cannot be made: %w", path, err)
}

func makeHostDir(path string) error {
	if err := os.MkdirAll(path, hostDirMode); err != nil {
		return err
	}
	return os.Chmod(path, hostDirMode) // whatever the umask
}

func makeHostFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, hostFileMode)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(hostFileMode), f.Close())
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
