package atomicwriter

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of paths, those of Linux (linux/limits.h: NAME_MAX, PATH_MAX).
const (
	maxElement = 255
	maxPath    = 4096
)

// tree is a set of files that can be written.
type tree struct {
	files map[string]*File // by clean path
	paths []string         // of the files, in order
	dirs  []string         // that they are in, those above others first
}

// newTree returns the tree of a set, or what is wrong with a path of it.
func newTree(set map[string]File) (*tree, error) {
	t := &tree{files: make(map[string]*File, len(set))}
	dirs := map[string]string{} // with a file in each
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if err := CheckPath(name); err != nil {
			return nil, err
		}
		file := set[name]
		clean := path.Clean(name)
		if t.files[clean] != nil {
			return nil, fmt.Errorf("path %q: another path names the same file", name)
		}
		t.files[clean] = &file
		for dir := path.Dir(clean); dir != "."; dir = path.Dir(dir) {
			dirs[dir] = clean
		}
	}
	for dir, file := range dirs {
		if t.files[dir] != nil {
			return nil, fmt.Errorf("path %q: it is to be a file, and the directory of %q", dir, file)
		}
	}
	t.paths = slices.Sorted(maps.Keys(t.files))
	t.dirs = slices.Sorted(maps.Keys(dirs))
	return t, nil
}

// CheckPath returns why a file cannot have a path, nil if it can: the path is relative,
// has no element "..", does not begin with "..", and is no longer than 4096 bytes with
// elements of at most 255.
func CheckPath(name string) error {
	elements := strings.Split(name, "/")
	switch {
	case path.IsAbs(name):
		return fmt.Errorf("path %q: it must be relative", name)
	case len(name) > maxPath:
		return fmt.Errorf("path %.32q…: it is longer than %d bytes", name, maxPath)
	case slices.Contains(elements, ".."):
		return fmt.Errorf("path %q: it must not contain '..'", name)
	case name == "" || path.Clean(name) == ".":
		return fmt.Errorf("path %q: it names no file", name)
	case strings.HasSuffix(name, "/"):
		return fmt.Errorf("path %q: it names a directory", name)
	case strings.HasPrefix(path.Clean(name), reserved):
		return fmt.Errorf("path %q: it must not start with '..'", name)
	case strings.ContainsRune(name, 0), !utf8.ValidString(name):
		return fmt.Errorf("path %q: it is no text in UTF-8", name)
	}
	for _, e := range elements {
		if len(e) > maxElement {
			return fmt.Errorf("path %.32q…: an element is longer than %d bytes", name, maxElement)
		}
	}
	return nil
}

// under returns paths below a directory.
func (*tree) under(dir string, paths []string) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = dir + "/" + p
	}
	return out
}

// tops returns the first elements of the paths: what users see in the directory.
func (t *tree) tops() map[string]bool {
	tops := make(map[string]bool, len(t.paths))
	for _, p := range t.paths {
		top, _, _ := strings.Cut(p, "/")
		tops[top] = true
	}
	return tops
}

// equals reports whether a generation holds the files of the tree with their content, and
// nothing else.
func (t *tree) equals(root *os.Root, generation string) (bool, error) {
	seen := 0
	err := fs.WalkDir(root.FS(), generation, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(strings.TrimPrefix(at, generation), "/")
		if d.IsDir() {
			if _, known := slices.BinarySearch(t.dirs, name); name != "" && !known {
				return errDiffers
			}
			return nil
		}
		file := t.files[name]
		if file == nil || !d.Type().IsRegular() {
			return errDiffers
		}
		seen++
		return file.equals(root, at, d)
	})
	switch {
	case errors.Is(err, errDiffers), errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	return seen == len(t.files), nil
}

var errDiffers = errors.New("the content differs")

// equals returns nil if the file at a path has the same content.
func (f *File) equals(root *os.Root, at string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	if info.Size() != int64(len(f.Data)) {
		return errDiffers
	}
	data, err := root.ReadFile(at)
	if err != nil {
		return err
	}
	if !bytes.Equal(data, f.Data) {
		return errDiffers
	}
	return nil
}
