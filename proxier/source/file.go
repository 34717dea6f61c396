package source

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxFileSize bounds what is read of one file; a thousand Services fit in one MiB.
const maxFileSize = 16 << 20

// file is one manifest file: what it last said that could be used, and what is
// wrong with what it says now.
type file struct {
	sum      [sha256.Size]byte
	good     *Manifest // nil if it never was any good
	closed   bool      // good ended with a line break
	problems []Problem
}

// isManifest goes by the name: hidden files and other extensions are left alone.
func isManifest(name string) bool {
	if strings.HasPrefix(name, ".") {
		return false
	}
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// load reads path, and decodes it if it changed since before. It returns nil if
// there is no such file any more, or it is no file.
//
// The first half of a file in YAML may well be a manifest with fewer objects, or
// none. It mostly ends inside a line, so a file that used to end with a line break
// and does not any more is taken for one.
func load(path string, before *file) *file {
	data, err := read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errNotRegular):
		return nil
	case err != nil:
		return failed(before, Problem{Path: path, Reason: err.Error()})
	}
	sum := sha256.Sum256(data)
	if before != nil && before.sum == sum {
		return before
	}
	f := &file{sum: sum, closed: bytes.HasSuffix(data, []byte("\n"))}
	m, err := Decode(data)
	if err == nil && before != nil && before.closed && !f.closed && !isJSON(data) {
		err = &DecodeError{
			Line:   bytes.Count(data, []byte("\n")) + 1,
			Reason: "ends inside a line as if half written, which it did not before; end it with a line break",
		}
	}
	if err != nil {
		p := Problem{Path: path, Reason: err.Error()}
		if d, ok := errors.AsType[*DecodeError](err); ok {
			p = Problem{Path: path, Line: d.Line, Field: d.Field, Reason: d.Reason}
		}
		f = failed(before, p)
		f.sum = sum
		return f
	}
	f.good = m
	for _, p := range m.Problems {
		p.Path = path
		f.problems = append(f.problems, p)
	}
	return f
}

// failed returns the state of a file that cannot be used now but may have been.
func failed(before *file, p Problem) *file {
	f := &file{}
	if before != nil && before.good != nil {
		f.good, f.closed = before.good, before.closed
		p.Reason += "; what it said before stays in force"
	} else {
		p.Reason += "; the file is not used"
	}
	f.problems = []Problem{p}
	return f
}

// isJSON reports whether data looks like JSON, of which half is a syntax error.
func isJSON(data []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) }

var errNotRegular = errors.New("not a regular file")

// read returns the content of a regular file, through links, and never blocks on
// a pipe or device.
func read(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	var buf bytes.Buffer
	n, err := io.Copy(&buf, io.LimitReader(f, maxFileSize+1))
	if err != nil {
		return nil, err
	}
	if n > maxFileSize {
		return nil, fmt.Errorf("is larger than %d MiB", maxFileSize>>20)
	}
	return buf.Bytes(), nil
}
