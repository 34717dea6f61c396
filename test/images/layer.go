package images

import (
	"archive/tar"
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// layer is a tar file on disk, and the SHA-256 of its bytes.
type layer struct {
	path, digest string
	size         int64
}

// saveLayer writes a layer to path by calling fill.
func saveLayer(path string, fill func(*tar.Writer) error) (layer, error) {
	file, err := os.Create(path)
	if err != nil {
		return layer{}, err
	}
	sum := sha256.New()
	buffered := bufio.NewWriterSize(file, 1<<20)
	archive := tar.NewWriter(io.MultiWriter(buffered, sum))
	err = errors.Join(fill(archive), archive.Close(), buffered.Flush())
	size, sizeErr := file.Seek(0, io.SeekCurrent)
	if err := errors.Join(err, sizeErr, file.Close()); err != nil {
		return layer{}, fmt.Errorf("write layer %s: %w", filepath.Base(path), err)
	}
	return layer{path: path, digest: hex.EncodeToString(sum.Sum(nil)), size: size}, nil
}

// entry is a file of a small layer: a directory when its name ends in a slash, a
// symbolic link when target is set, a copy of the file at path when that is set.
type entry struct {
	name   string
	mode   int64
	data   []byte
	path   string
	target string
}

// addEntries writes the entries, owned by root and of one date, so that the same
// entries give the same bytes.
func addEntries(archive *tar.Writer, entries []entry) error {
	for _, e := range entries {
		data := e.data
		if e.path != "" {
			var err error
			if data, err = os.ReadFile(e.path); err != nil {
				return err
			}
		}
		header := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(data)), ModTime: epoch(), Format: tar.FormatPAX}
		switch {
		case e.target != "":
			header.Typeflag, header.Linkname = tar.TypeSymlink, e.target
		case strings.HasSuffix(e.name, "/"):
			header.Typeflag = tar.TypeDir
		default:
			header.Typeflag = tar.TypeReg
		}
		err := archive.WriteHeader(header)
		if err == nil {
			_, err = archive.Write(data)
		}
		if err != nil {
			return fmt.Errorf("add %s: %w", e.name, err)
		}
	}
	return nil
}

func epoch() time.Time { return time.Unix(0, 0) }

// tree writes a folder's files to a layer, in the order of their names.
type tree struct {
	root string
	// links holds the first name of each file that has several.
	links map[uint64]string
}

// addTree writes everything below root for which keep answers true, named relative to
// root. A folder that is not kept is left out with all it holds. Sockets and devices
// are left out: a runtime makes those that a container has.
func addTree(archive *tar.Writer, root string, keep func(name string) bool) error {
	t := tree{root: root, links: map[uint64]string{}}
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case name == ".":
			return nil
		case keep(name):
			return t.add(archive, name, d)
		case d.IsDir():
			return filepath.SkipDir
		default:
			return nil
		}
	})
}

func (t tree) add(archive *tar.Writer, name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	if info.Mode()&(fs.ModeSocket|fs.ModeDevice|fs.ModeNamedPipe) != 0 {
		return nil
	}
	header, err := t.header(name, info)
	if err != nil {
		return err
	}
	if err := archive.WriteHeader(header); err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	if header.Typeflag != tar.TypeReg {
		return nil
	}
	file, err := os.Open(filepath.Join(t.root, name))
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := io.Copy(archive, file); err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	return nil
}

// header describes a file of the tree: its owner by number, and no dates, which differ
// from one build to the next.
func (t tree) header(name string, info fs.FileInfo) (*tar.Header, error) {
	var target string
	if info.Mode()&fs.ModeSymlink != 0 {
		var err error
		if target, err = os.Readlink(filepath.Join(t.root, name)); err != nil {
			return nil, err
		}
	}
	header, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return nil, err
	}
	header.Name = name
	if info.IsDir() {
		header.Name += "/"
	}
	header.Uname, header.Gname = "", ""
	header.ModTime, header.AccessTime, header.ChangeTime = epoch(), time.Time{}, time.Time{}
	header.Format = tar.FormatPAX
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode().IsRegular() && stat.Nlink > 1 {
		if first, seen := t.links[stat.Ino]; seen {
			header.Typeflag, header.Linkname, header.Size = tar.TypeLink, first, 0
		} else {
			t.links[stat.Ino] = name
		}
	}
	return header, nil
}
