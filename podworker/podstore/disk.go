package podstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// disk reads and writes the files of one directory.
type disk struct {
	dir string
	// step is called before each change of the directory with what is about to be done;
	// an error takes the place of it. Tests end the process's life there.
	step func(what string) error
}

// open makes the directory if it is missing.
func (d *disk) open() error {
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of the pod store: %w", err)
	}
	return nil
}

// asideSuffix ends the names of damaged files, and temporary begins those of files whose
// writing was cut off.
const (
	asideSuffix = ".damaged"
	temporary   = "."
)

// names returns the names of the files, and removes what a crash has left.
func (d *disk) names() ([]string, error) {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return nil, fmt.Errorf("read the directory of the pod store: %w", err)
	}
	names := make([]string, 0, len(entries))
	var errs []error
	for _, e := range entries {
		switch name := e.Name(); {
		case strings.HasPrefix(name, temporary):
			errs = append(errs, d.remove(name))
		case !strings.HasSuffix(name, asideSuffix):
			names = append(names, name)
		}
	}
	return names, errors.Join(errs...)
}

// read returns the payload of a file.
func (d *disk) read(name string) ([]byte, error) {
	f, err := os.Open(filepath.Join(d.dir, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%w: it is no regular file", ErrDamaged), err)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxPayload+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxPayload:
		return nil, fmt.Errorf("%w: it is longer than %d bytes", ErrDamaged, maxPayload)
	}
	return decodeFile(data)
}

// aside takes a damaged file out of the way, for people to look at. Of two of one name the
// later stays.
func (d *disk) aside(name string) error {
	if err := d.step("put aside"); err != nil {
		return err
	}
	return os.Rename(filepath.Join(d.dir, name), filepath.Join(d.dir, name+asideSuffix))
}

// write replaces a file so that after a crash at any point, also of the machine, its old
// or its new content is there.
func (d *disk) write(name string, payload []byte) error {
	f, err := d.create(name)
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Join(d.dir, name), err)
	}
	err = d.fill(f, encodeFile(payload))
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = d.step("rename")
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(d.dir, name))
	}
	if err == nil {
		return d.sync()
	}
	return fmt.Errorf("write %s: %w", filepath.Join(d.dir, name), errors.Join(err, d.remove(filepath.Base(f.Name()))))
}

// create makes the file whose content will take the place of the old one.
func (d *disk) create(name string) (*os.File, error) {
	if err := d.step("create"); err != nil {
		return nil, err
	}
	return os.CreateTemp(d.dir, temporary+name+".*")
}

// fill forces the content to the disk. It is written in two halves, for a test to cut it
// off between them.
func (d *disk) fill(f *os.File, data []byte) error {
	half := len(data) / 2
	for _, part := range [][]byte{data[:half], data[half:]} {
		if err := d.step("write"); err != nil {
			return err
		}
		if _, err := f.Write(part); err != nil {
			return err
		}
	}
	if err := d.step("sync"); err != nil {
		return err
	}
	return f.Sync()
}

// remove removes a file, if it is there.
func (d *disk) remove(name string) error {
	if err := d.step("remove"); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(d.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sync makes what was renamed and removed last.
func (d *disk) sync() error {
	if err := d.step("sync directory"); err != nil {
		return err
	}
	f, err := os.Open(d.dir)
	if err != nil {
		return fmt.Errorf("force the directory of the pod store to the disk: %w", err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("force the directory of the pod store to the disk: %w", err)
	}
	return nil
}
