package atomicwriter

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// newGeneration returns a name for a generation that no other has: the time, then a
// number.
func newGeneration() string {
	return time.Now().UTC().Format("..2006_01_02_15_04_05.") + strconv.FormatUint(uint64(rand.Uint32()), 10)
}

// isGeneration reports whether a name can be that of a generation.
func isGeneration(name string) bool {
	return strings.HasPrefix(name, reserved) && !slices.Contains([]string{reserved, dataLink, nextLink}, name) && !strings.Contains(name, "/")
}

// generation returns the name of the generation that readers see, empty if there is none.
func (u *update) generation() (string, error) {
	name, err := u.root.Readlink(dataLink)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	case !isGeneration(name):
		return "", nil // a stranger's link; the next one replaces it
	}
	info, err := u.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return "", nil
	}
	return name, err
}

// content is what is in the directory.
type content struct {
	links    map[string]bool // that were made for users
	others   map[string]bool // what else stands among them
	reserved []string        // what only a writer makes
}

// look returns what is in the directory.
func (u *update) look() (*content, error) {
	entries, err := fs.ReadDir(u.root.FS(), ".")
	if err != nil {
		return nil, err
	}
	c := &content{links: map[string]bool{}, others: map[string]bool{}}
	for _, e := range entries {
		name, target := e.Name(), ""
		if strings.HasPrefix(name, reserved) {
			c.reserved = append(c.reserved, name)
			continue
		}
		if e.Type()&fs.ModeSymlink != 0 {
			if target, err = u.root.Readlink(name); err != nil {
				return nil, err
			}
		}
		if target == dataLink+"/"+name {
			c.links[name] = true
		} else {
			c.others[name] = true
		}
	}
	return c, nil
}

// link makes the links that users see, where they are missing. A directory that somebody
// made in the place of one, as for a mount below the files, stays.
func (u *update) link(c *content, tops map[string]bool) error {
	for top := range tops {
		if c.links[top] || c.others[top] {
			continue
		}
		if err := u.disk.symlink(dataLink+"/"+top, top); err != nil {
			return err
		}
	}
	return nil
}

// tidy leaves one generation and the links to its files. It removes what an update
// replaced, and what one that died had begun.
func (u *update) tidy(c *content, generation string, tops map[string]bool) error {
	var errs []error
	for name := range c.links {
		if !tops[name] {
			errs = append(errs, u.disk.remove(name))
		}
	}
	for _, name := range c.reserved {
		if name != dataLink && name != generation {
			errs = append(errs, u.removeTree(name))
		}
	}
	return errors.Join(errs...)
}

// removeTree removes a generation, file by file. It follows no link.
func (u *update) removeTree(name string) error {
	info, err := u.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return u.disk.remove(name)
	}
	var all []string
	err = fs.WalkDir(u.root.FS(), name, func(at string, _ fs.DirEntry, err error) error {
		all = append(all, at)
		return err
	})
	if err != nil {
		return err
	}
	for _, at := range slices.Backward(all) {
		if err := u.disk.remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
