package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nodekit-go/nodekit/test/conformance"
)

// Tree is the folder test/conformance of a working tree, with the files of package
// conformance that are under version control.
type Tree string

func (t Tree) recordPath(set conformance.Set, kit conformance.Kit) string {
	return filepath.Join(string(t), "results", set.Name, kit.Name(set)+".txt")
}

func (t Tree) ratchetPath(set conformance.Set, kit conformance.Kit) string {
	return filepath.Join(string(t), "ratchet", set.Name, kit.Name(set)+".txt")
}

// Record returns the recorded results of the set with this kit. Nothing recorded is
// the zero value and no error.
func (t Tree) Record(set conformance.Set, kit conformance.Kit) (record conformance.Record, err error) {
	err = read(t.recordPath(set, kit), func(file *os.File) (err error) {
		record, err = conformance.ParseRecord(file)
		return err
	})
	return record, err
}

// SaveRecord replaces the recorded results.
func (t Tree) SaveRecord(set conformance.Set, kit conformance.Kit, record conformance.Record) error {
	return write(t.recordPath(set, kit), func(file *os.File) error { return record.Encode(file) })
}

// Ratchet returns the specs that must pass. A ratchet that has not begun is empty and
// no error.
func (t Tree) Ratchet(set conformance.Set, kit conformance.Kit) (ratchet conformance.Ratchet, err error) {
	err = read(t.ratchetPath(set, kit), func(file *os.File) (err error) {
		ratchet, err = conformance.ParseRatchet(file)
		return err
	})
	return ratchet, err
}

// SaveRatchet replaces the ratchet.
func (t Tree) SaveRatchet(set conformance.Set, kit conformance.Kit, ratchet conformance.Ratchet) error {
	return write(t.ratchetPath(set, kit), func(file *os.File) error { return ratchet.Encode(file) })
}

// Records returns all recorded results of a set, in the order of their kits' names.
func (t Tree) Records(set conformance.Set) ([]conformance.Record, error) {
	paths, err := filepath.Glob(filepath.Join(string(t), "results", set.Name, "*.txt"))
	if err != nil {
		return nil, err
	}
	var records []conformance.Record
	for _, path := range paths {
		err := read(path, func(file *os.File) error {
			record, err := conformance.ParseRecord(file)
			records = append(records, record)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return records, nil
}

// read calls parse with the file, and not at all when there is none.
func read(path string, parse func(*os.File) error) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	if err := parse(file); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// write replaces a file at once or not at all.
func write(path string, encode func(*os.File) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	if err := errors.Join(encode(file), file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(path+".new", path)
}
