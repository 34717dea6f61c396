package staticpods

import (
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

// fingerprint changes whenever a file is written or replaced.
type fingerprint struct {
	dev, ino uint64
	size     int64
	mtime    time.Time
}

// entry is what one look saw of one name.
type entry struct {
	name  string
	path  string
	print fingerprint
	// odd says why there is nothing to read: "is a directory".
	odd string
	// broken is true when the name leads to something that could not be looked at;
	// it may well be a manifest.
	broken bool
}

// view is what one look saw of the path, sorted by name. Hidden files are not in
// it: they are never opened.
type view struct {
	entries []entry
	missing bool
	// single is true when the path is a file, which is read whatever its name.
	single bool
	// dev and ino are those of the directory, for the watcher.
	dev, ino uint64
}

// look lists path, a directory or a file. A path that does not exist is a view
// too; every other failure is an error, and says nothing about the files.
func look(path string) (view, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, dangling := os.Lstat(path); dangling == nil {
			return view{}, fmt.Errorf("read manifests: %s is a link to something that does not exist", path)
		}
		return view{missing: true}, nil
	}
	if err != nil {
		return view{}, fmt.Errorf("read manifests: %w", err)
	}
	v := view{single: !info.IsDir()}
	v.dev, v.ino = inode(info)
	if v.single {
		v.entries = []entry{entryOf(path, info)}
		return v, nil
	}
	names, err := os.ReadDir(path) // sorted by name
	if err != nil {
		return view{}, fmt.Errorf("read manifests: %w", err)
	}
	for _, n := range names {
		if strings.HasPrefix(n.Name(), ".") {
			continue
		}
		file := filepath.Join(path, n.Name())
		info, err := os.Stat(file)
		if _, gone := os.Lstat(file); errors.Is(err, fs.ErrNotExist) && gone != nil {
			continue // removed since the listing
		}
		if err != nil {
			v.entries = append(v.entries, entry{name: n.Name(), path: file, odd: reason(err), broken: true})
			continue
		}
		v.entries = append(v.entries, entryOf(file, info))
	}
	return v, nil
}

func entryOf(path string, info fs.FileInfo) entry {
	e := entry{name: filepath.Base(path), path: path, print: fingerprintOf(info)}
	switch {
	case info.IsDir():
		e.odd = "is a directory; directories are not entered"
	case !info.Mode().IsRegular():
		e.odd = fmt.Sprintf("is not a regular file (%s)", info.Mode().Type())
	}
	return e
}

func inode(info fs.FileInfo) (dev, ino uint64) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Dev), st.Ino
	}
	return 0, 0
}

func fingerprintOf(info fs.FileInfo) fingerprint {
	f := fingerprint{size: info.Size(), mtime: info.ModTime()}
	f.dev, f.ino = inode(info)
	return f
}

// readFile returns the bytes of a regular file, one more than MaxBytes at most,
// and the fingerprint that it has afterwards. It does not wait for the writer of
// a pipe that took the file's place.
func readFile(path string) ([]byte, fingerprint, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fingerprint{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fingerprint{}, err
	}
	if !info.Mode().IsRegular() {
		return nil, fingerprint{}, errors.New("it is not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return nil, fingerprint{}, err
	}
	if info, err = f.Stat(); err != nil {
		return nil, fingerprint{}, err
	}
	return data, fingerprintOf(info), nil
}

// reason words an error of the file system for a status that has the path
// already.
func reason(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		if errors.Is(err, fs.ErrNotExist) {
			return "is a link to something that does not exist"
		}
		return "cannot be read: " + p.Err.Error()
	}
	return "cannot be read: " + err.Error()
}

// isManifestName is the list of allowed extensions: backups and notes of editors
// and people do not become pods.
func isManifestName(name string) bool {
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}
