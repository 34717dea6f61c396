package logs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// stampFormat is the local time that the kubelet puts behind the name of a file when it
// rotates it: 0.log.20260102-150405 (k8s.io/kubernetes/pkg/kubelet/logs, timestampFormat).
const stampFormat = "20060102-150405"

const (
	compressedSuffix = ".gz"
	// unfinishedSuffix marks what is being compressed.
	unfinishedSuffix = ".tmp"
)

// dir is the folder of a log: all that is opened goes through it.
type dir struct {
	folder *os.File
	// name is the live file's.
	name string
}

func openDir(f File) (*dir, error) {
	if err := f.validate(); err != nil {
		return nil, err
	}
	folder, err := openBeneath(f.Root, filepath.Dir(f.Path))
	if err != nil {
		return nil, fmt.Errorf("open folder of log %s: %w", f, err)
	}
	return &dir{folder: folder, name: filepath.Base(f.Path)}, nil
}

func (d *dir) close() { d.folder.Close() }

// open opens a regular file of the folder. It does not wait for the other end of a pipe.
func (d *dir) open(name string) (*os.File, error) {
	f, err := openIn(d.folder, name)
	if err != nil {
		return nil, fmt.Errorf("open log %s: %w", d.path(name), err)
	}
	info, err := infoOf(f)
	if err == nil && !info.regular {
		err = fmt.Errorf("open log %s: it is no regular file", d.path(name))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (d *dir) path(name string) string { return filepath.Join(d.folder.Name(), name) }

// names lists the folder.
func (d *dir) names() ([]string, error) {
	if _, err := d.folder.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("list %s: %w", d.folder.Name(), err)
	}
	names, err := d.folder.Readdirnames(-1)
	if errors.Is(err, fs.ErrNotExist) {
		// The folder was removed while it was open.
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", d.folder.Name(), err)
	}
	return names, nil
}

// rotated lists the stamps of the rotated files, oldest first.
func (d *dir) rotated() ([]string, error) {
	names, err := d.names()
	if err != nil {
		return nil, err
	}
	var stamps []string
	for _, name := range names {
		if stamp, ok := d.stampOf(strings.TrimSuffix(name, compressedSuffix)); ok {
			stamps = append(stamps, stamp)
		}
	}
	slices.Sort(stamps)
	// A file that was just compressed is there twice.
	return slices.Compact(stamps), nil
}

// stampOf returns the stamp in the name of a rotated file.
func (d *dir) stampOf(name string) (string, bool) {
	stamp, ok := strings.CutPrefix(name, d.name+".")
	if !ok {
		return "", false
	}
	_, err := time.Parse(stampFormat, stamp)
	return stamp, err == nil
}
