package main

import (
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// archive writes an initramfs in the "newc" format
// (https://docs.kernel.org/driver-api/early-userspace/buffer-format.html). Folders
// come with the files in them. The first error stays and makes the rest no-ops.
type archive struct {
	w     io.Writer
	n     int64
	inode int
	known map[string]bool
	err   error
}

func newArchive(w io.Writer) *archive {
	return &archive{w: w, known: map[string]bool{"": true, ".": true}}
}

// The file types of the mode field (stat.h).
const (
	typeFolder = 0o040000
	typeFile   = 0o100000
	typeLink   = 0o120000
)

// folder adds the folder name and those above it.
func (a *archive) folder(name string) {
	name = clean(name)
	if a.known[name] {
		return
	}
	a.folder(path.Dir(name))
	a.known[name] = true
	a.header(name, typeFolder|0o755, 0)
}

// link adds a symbolic link.
func (a *archive) link(name, target string) {
	if a.entry(name) {
		a.header(clean(name), typeLink|0o777, int64(len(target)))
		a.data(strings.NewReader(target))
	}
}

// bytes adds a file with this content.
func (a *archive) bytes(name string, content []byte) {
	if a.entry(name) {
		a.header(clean(name), typeFile|0o644, int64(len(content)))
		a.data(strings.NewReader(string(content)))
	}
}

// file adds a copy of a host file.
func (a *archive) file(name, from string) {
	if !a.entry(name) {
		return
	}
	f, err := os.Open(from)
	if err != nil {
		a.fail(err)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		a.fail(err)
		return
	}
	a.header(clean(name), typeFile|int64(info.Mode().Perm()), info.Size())
	a.data(f)
}

// tree adds a host folder and what is below it; links stay links.
func (a *archive) tree(name, from string) {
	entries, err := os.ReadDir(from)
	if err != nil {
		a.fail(err)
		return
	}
	a.folder(name)
	for _, e := range entries {
		inside, outside := path.Join(name, e.Name()), path.Join(from, e.Name())
		switch {
		case e.IsDir():
			a.tree(inside, outside)
		case e.Type()&os.ModeSymlink != 0:
			target, err := os.Readlink(outside)
			if err != nil {
				a.fail(err)
			}
			a.link(inside, target)
		case e.Type().IsRegular():
			a.file(inside, outside)
		}
	}
}

// close ends the archive. Another one may follow in the same file.
func (a *archive) close() error {
	a.header("TRAILER!!!", 0, 0)
	return a.err
}

// entry makes the folder of a new entry; it reports false when the archive has it.
func (a *archive) entry(name string) bool {
	name = clean(name)
	if a.known[name] {
		return false
	}
	a.folder(path.Dir(name))
	a.known[name] = true
	return true
}

func clean(name string) string { return strings.TrimPrefix(path.Clean(name), "/") }

func (a *archive) header(name string, mode, size int64) {
	a.inode++
	// magic, inode, mode, uid, gid, links, mtime, size, four device numbers, length
	// of the name with its final zero, checksum.
	head := fmt.Sprintf("070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		a.inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, len(name)+1, 0, name)
	a.data(strings.NewReader(head))
}

// data writes and pads to four bytes.
func (a *archive) data(r io.Reader) {
	if a.err != nil {
		return
	}
	n, err := io.Copy(a.w, r)
	a.n += n
	if err == nil && a.n%4 != 0 {
		n, err = io.CopyN(a.w, strings.NewReader("\x00\x00\x00"), 4-a.n%4)
		a.n += n
	}
	if err != nil {
		a.fail(err)
	}
}

func (a *archive) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}
