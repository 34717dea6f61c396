package podsync

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

// disk is all that is written to the file system for pods. Whatever a process leaves that
// dies in a call, the same call of the next one makes good.
type disk interface {
	// make makes a directory or a file.
	make(p *podspec.Path) error
	// remove removes a file; one that is not there is no error.
	remove(path string) error
	// removeTree removes name and all below it from a directory.
	removeTree(dir, name string) error
	// link makes a link to target, and the directory it is in; one that is there stays.
	link(target, path string) error
	// store replaces a file.
	store(path string, data []byte) error
}

// localDisk is the file system of the node.
type localDisk struct{}

func (localDisk) make(p *podspec.Path) error {
	switch p.Kind {
	case podspec.OwnDir:
		return ownDir(p)
	case podspec.OwnFile:
		return ownFile(p)
	case podspec.SubPath:
	}
	return errors.New("a " + p.Kind.String() + " is not made on disk")
}

func (localDisk) remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (localDisk) removeTree(dir, name string) error { return removeTree(dir, name) }

// linksMode is the mode of the directory of links, which log collectors read.
const linksMode = 0o755

func (localDisk) link(target, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), linksMode); err != nil {
		return err
	}
	if err := os.Symlink(target, path); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// storedMode is the mode of what the agent keeps for itself.
const storedMode = 0o600

// store writes beside the file and renames: a reader, or the next process, has the old
// content or the new.
func (localDisk) store(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(storedMode), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
