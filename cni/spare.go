package cni

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Files of removed records are kept for new ones. To write in place, into blocks
// that a file already has, and to sync that, costs a file system with a journal a
// tenth of what it takes to make a file and its name durable.
//
// The content says what a file is: a record, or a spare, which begins with a mark.
// The name follows: a file is marked before it gets the name of a spare, and gets the
// name of a record before it loses the mark, which is before any plugin runs. After a
// crash of the process the names are right therefore, but for a mark under the name of
// a record, which is no record. After a power cut some of the last names and marks may
// be missing: then sortOut names each record by its content.

const (
	// mark is at the beginning of a spare file; no checksum looks like it.
	mark = "removed\n"
	// sparePrefix begins the names of spare files.
	sparePrefix = "@spare-"
	// maxSpares is how many are kept, of some kilobytes each.
	maxSpares = 128
)

// isSpare reports whether a file has the mark.
func isSpare(file io.ReaderAt) bool {
	head := make([]byte, len(mark))
	n, _ := file.ReadAt(head, 0)
	return string(head[:n]) == mark
}

// takeSpare gives a spare file another name, and reports whether there was one. It
// fails with fs.ErrExist.
func (f folder) takeSpare(name string) (bool, error) {
	spares, err := f.spares()
	if err != nil {
		return false, err
	}
	for _, spare := range spares {
		err := f.rename(spare, name)
		if errors.Is(err, os.ErrExist) && f.marked(name) {
			return true, nil // a crash has left it there
		}
		if err == nil || errors.Is(err, os.ErrExist) {
			return err == nil, err
		}
		if !errors.Is(err, os.ErrNotExist) { // taken by another process
			return false, nil // the file system can't
		}
	}
	if f.marked(name) {
		return true, nil
	}
	return false, nil
}

// marked reports whether the file of that name is a spare.
func (f folder) marked(name string) bool {
	file, err := os.Open(f.path(name))
	if err != nil {
		return false
	}
	defer file.Close()
	return isSpare(file)
}

// spares lists the files with the name of a spare.
func (f folder) spares() ([]string, error) {
	dir, err := os.Open(f.dir)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	var spares []string
	for _, name := range names {
		if strings.HasPrefix(name, sparePrefix) {
			spares = append(spares, name)
		}
	}
	return spares, err
}

// rename does not replace another file.
func (f folder) rename(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, f.path(from), unix.AT_FDCWD, f.path(to), unix.RENAME_NOREPLACE)
	if err != nil {
		return fmt.Errorf("rename %s to %s: %w", f.path(from), to, err)
	}
	return nil
}

// Remove implements disk.
func (f folder) Remove(name string) error {
	spares, err := f.spares()
	if err != nil {
		return err
	}
	if len(spares) < maxSpares && f.retire(name) == nil {
		return nil
	}
	return os.Remove(f.path(name))
}

// retire makes a spare of a file.
func (f folder) retire(name string) error {
	file, err := os.OpenFile(f.path(name), os.O_WRONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.WriteAt([]byte(mark), 0); err != nil {
		return err
	}
	return f.renameSpare(file, name)
}

// renameSpare gives a file the name of a spare, which is the file's own.
func (f folder) renameSpare(file *os.File, name string) error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return err
	}
	spare := fmt.Sprintf("%s%d", sparePrefix, stat.Ino)
	if name == spare {
		return nil
	}
	return f.rename(name, spare)
}

// sortOut puts the names right, once in the life of the process.
func (f folder) sortOut() error {
	if f.sorted.Load() {
		return nil
	}
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return err
	}
	wrong := map[string]string{} // by the spare's name it has then
	for _, e := range entries {
		_, _, isRecord := parseName(e.Name())
		if !isRecord && !strings.HasPrefix(e.Name(), sparePrefix) || !e.Type().IsRegular() {
			continue // not ours
		}
		spare, want, err := f.inspect(e.Name())
		if err != nil {
			return err
		}
		if want != "" {
			wrong[spare] = want
		}
	}
	for spare, want := range wrong {
		err := f.rename(spare, want)
		if errors.Is(err, os.ErrExist) {
			// Two records of one attachment: DEL of either will do for both.
			err = f.retire(spare)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	f.sorted.Store(true)
	return nil
}

// inspect looks whether a name fits the content. If not, the file gets the name of a
// spare, and want is the name it should have, empty if it is a spare.
func (f folder) inspect(name string) (spare, want string, err error) {
	file, err := os.OpenFile(f.path(name), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		return "", "", nil // at work in another process
	}
	if err != nil {
		return "", "", err
	}
	defer file.Close()
	if unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil || !f.names(name, file) {
		return "", "", nil // at work in another process
	}
	data, err := bufio.NewReader(io.NewSectionReader(file, 0, maxRecord)).ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", "", err
	}
	isSpareName := strings.HasPrefix(name, sparePrefix)
	want, ok := recordedName(data)
	switch {
	case ok && want == name:
		return "", "", nil
	case !ok && isSpareName:
		return "", "", nil // a spare, or what a power cut made of one before it was used
	case !ok && !strings.HasPrefix(string(data), mark):
		return "", "", nil // damaged: its name is all there is
	}
	if err := f.renameSpare(file, name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", "", err
	}
	now, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	return filepath.Base(now), want, err
}
