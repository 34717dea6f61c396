package atomicwriter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// File is one file of a set.
type File struct {
	Data []byte
	// Mode has the permission bits, whatever the umask; other bits do not count.
	Mode fs.FileMode
	// UID owns the file; nil: the user of the process.
	UID *int
}

// Writer replaces the files of a directory.
type Writer struct {
	// Dir is the directory; it has to exist.
	Dir string
	// GID is the group that owns all that is written, and that may enter its directories;
	// nil: the group of the process.
	GID *int
	// Durable waits until the disk has what was written before it is published, so that
	// the promise holds after a loss of power, too. Without, it holds after the death of
	// the process.
	Durable bool
}

// Write makes the directory hold a set of files by their relative paths, and reports
// whether anything that a reader sees has changed. It does nothing if the same files with
// the same content are there; modes and owners are not compared. After an error the
// directory holds the old set or the new one, and the next Write does what is missing.
func (w Writer) Write(set map[string]File) (changed bool, err error) {
	root, err := os.OpenRoot(w.Dir)
	if err != nil {
		return false, fmt.Errorf("write files atomically: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	u := update{root: root, disk: disk{root: root, gid: w.GID}, durable: w.Durable}
	changed, err = u.run(set)
	if err != nil {
		return changed, fmt.Errorf("write files atomically to %s: %w", w.Dir, err)
	}
	return changed, nil
}

// Names in the directory, which applications rely on.
const (
	dataLink = "..data"
	nextLink = "..data_tmp"
	reserved = ".."
)

// update is one call of Write. The death of the process in any step of disk leaves what
// the next update puts right.
type update struct {
	root    *os.Root
	disk    filesystem
	durable bool
}

// filesystem is all that changes the directory. Names are relative to it.
type filesystem interface {
	mkdir(name string) error
	create(name string, f *File, durable bool) error
	symlink(target, name string) error
	rename(from, to string) error
	// remove removes a file, a link or an empty directory.
	remove(name string) error
	// sync waits until the disk has the entries of a directory.
	sync(dir string) error
}

func (u *update) run(set map[string]File) (changed bool, err error) {
	wanted, err := newTree(set)
	if err != nil {
		return false, err
	}
	now, err := u.generation()
	if err != nil {
		return false, err
	}
	there, err := u.look()
	if err != nil {
		return false, err
	}
	tops := wanted.tops()
	if now != "" {
		same, err := wanted.equals(u.root, now)
		if err != nil {
			return false, err
		}
		if same {
			return false, errors.Join(u.link(there, tops), u.tidy(there, now, tops))
		}
	}
	next := newGeneration()
	err = u.fill(next, wanted)
	if err == nil {
		// The links come first: they lead nowhere until all files are there.
		err = u.link(there, tops)
	}
	if err == nil {
		err = u.publish(next)
	}
	if err != nil {
		return false, errors.Join(err, u.removeTree(next))
	}
	if u.durable {
		err = u.disk.sync(".")
	}
	return true, errors.Join(err, u.tidy(there, next, tops))
}

// fill writes a generation, which nobody sees yet.
func (u *update) fill(name string, wanted *tree) error {
	dirs := append([]string{name}, wanted.under(name, wanted.dirs)...)
	for _, dir := range dirs {
		if err := u.disk.mkdir(dir); err != nil {
			return err
		}
	}
	for i, path := range wanted.under(name, wanted.paths) {
		if err := u.disk.create(path, wanted.files[wanted.paths[i]], u.durable); err != nil {
			return err
		}
	}
	if !u.durable {
		return nil
	}
	for _, dir := range dirs {
		if err := u.disk.sync(dir); err != nil {
			return err
		}
	}
	return nil
}

// publish makes a generation the one that readers see.
func (u *update) publish(name string) error {
	if err := u.disk.remove(nextLink); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := u.disk.symlink(name, nextLink); err != nil {
		return err
	}
	if err := u.disk.rename(nextLink, dataLink); err != nil {
		return errors.Join(err, u.disk.remove(nextLink))
	}
	return nil
}
