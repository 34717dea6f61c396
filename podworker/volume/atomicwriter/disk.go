package atomicwriter

import (
	"errors"
	"io/fs"
	"os"
)

const (
	dirMode = 0o755
	// createMode is the mode of a file until it is complete.
	createMode = 0o600
)

// disk is the file system beneath a directory.
type disk struct {
	root *os.Root
	gid  *int
}

// mkdir makes a directory with the mode of all directories, which its group may enter
// and hands on to what is made in it.
func (d disk) mkdir(name string) error {
	if err := d.root.Mkdir(name, dirMode); err != nil {
		return err
	}
	mode := fs.FileMode(dirMode)
	if d.gid != nil {
		if err := d.root.Lchown(name, -1, *d.gid); err != nil {
			return err
		}
		mode |= fs.ModeSetgid
	}
	return d.root.Chmod(name, mode)
}

func (d disk) create(name string, file *File, durable bool) error {
	f, err := d.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, createMode)
	if err != nil {
		return err
	}
	_, err = f.Write(file.Data)
	if err == nil {
		err = d.own(f, file.UID)
	}
	if err == nil {
		err = f.Chmod(file.Mode.Perm())
	}
	if err == nil && durable {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// own gives a file to its user and group.
func (d disk) own(f *os.File, user *int) error {
	if user == nil && d.gid == nil {
		return nil
	}
	uid, gid := -1, -1
	if user != nil {
		uid = *user
	}
	if d.gid != nil {
		gid = *d.gid
	}
	return f.Chown(uid, gid)
}

func (d disk) symlink(target, name string) error {
	if err := d.root.Symlink(target, name); err != nil {
		return err
	}
	if d.gid == nil {
		return nil
	}
	return d.root.Lchown(name, -1, *d.gid)
}

func (d disk) rename(from, to string) error { return d.root.Rename(from, to) }

func (d disk) remove(name string) error { return d.root.Remove(name) }

func (d disk) sync(dir string) error {
	f, err := d.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
