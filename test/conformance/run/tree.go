package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nodekit-go/nodekit/test/conformance"
)

// Tree is the folder test/conformance of a working tree, with the files of package
// conformance that are under version control.
type Tree string

// runsDir is the folder with a file per recorded run.
func (t Tree) runsDir(set conformance.Set, kit string) string {
	return filepath.Join(string(t), "results", set.Name, kit)
}

func (t Tree) ratchetPath(set conformance.Set, kit conformance.Kit) string {
	return filepath.Join(string(t), "ratchet", set.Name, kit.Name(set)+".txt")
}

// Runs returns the recorded runs of the set with this kit. Nothing recorded is no error.
func (t Tree) Runs(set conformance.Set, kit conformance.Kit) (conformance.Runs, error) {
	return readRuns(t.runsDir(set, kit.Name(set)))
}

// readRuns reads a folder of recorded runs, the oldest first.
func readRuns(dir string) (conformance.Runs, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	var runs conformance.Runs
	for _, path := range paths {
		err := read(path, func(file *os.File) error {
			record, err := conformance.ParseRecord(file)
			runs = append(runs, record)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	runs.Sort()
	return runs, nil
}

// Record adds a run to the recorded ones of its set and kit, and removes those that are
// too many.
func (t Tree) Record(set conformance.Set, kit conformance.Kit, record conformance.Record) error {
	runs, err := t.Runs(set, kit)
	if err != nil {
		return err
	}
	dir := t.runsDir(set, kit.Name(set))
	kept, dropped := runs.Add(record)
	if !slices.ContainsFunc(kept, func(r conformance.Record) bool { return r.Date.Equal(record.Date) }) {
		return fmt.Errorf("%d later runs are recorded than that of %s", len(kept), record.Date.UTC().Format(time.RFC3339))
	}
	if err := write(runPath(dir, record), func(file *os.File) error { return record.Encode(file) }); err != nil {
		return err
	}
	for _, old := range dropped {
		if err := os.Remove(runPath(dir, old)); err != nil {
			return fmt.Errorf("remove an old run: %w", err)
		}
	}
	return nil
}

// runPath is the file of a run, named after when it began.
func runPath(dir string, record conformance.Record) string {
	return filepath.Join(dir, record.Date.UTC().Format("20060102T150405Z")+".txt")
}

// soaks is the folder of the reports of soaks, beside those of the sets.
const soaks = "soak"

// Soaks returns the recorded reports of soaks, in the order of their kits' names.
func (t Tree) Soaks() ([]conformance.Soak, error) {
	paths, err := filepath.Glob(filepath.Join(string(t), "results", soaks, "*.json"))
	if err != nil {
		return nil, err
	}
	var all []conformance.Soak
	for _, path := range paths {
		err := read(path, func(file *os.File) error {
			soak, err := conformance.ParseSoak(file)
			all = append(all, soak)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
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

// Chapter returns all recorded runs of a set.
func (t Tree) Chapter(set conformance.Set) (conformance.Chapter, error) {
	chapter := conformance.Chapter{Set: set}
	dirs, err := filepath.Glob(t.runsDir(set, "*"))
	if err != nil {
		return chapter, err
	}
	for _, dir := range dirs {
		runs, err := readRuns(dir)
		if err != nil {
			return chapter, err
		}
		if len(runs) > 0 {
			chapter.Kits = append(chapter.Kits, runs)
		}
	}
	return chapter, nil
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
