package capacity

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxFile bounds what is read of a file. /proc/cpuinfo of a machine with a thousand
// CPUs has about 2 MiB.
const maxFile = 16 << 20

// tree is the machine's files below a root.
type tree struct{ root string }

func (t tree) path(name string) string { return filepath.Join(cmp.Or(t.root, "/"), name) }

// text returns a file without blanks around it.
func (t tree) text(name string) (string, error) {
	f, err := os.Open(t.path(name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", t.path(name), err)
	}
	return strings.TrimSpace(string(data)), nil
}

// optional is text, empty where there is no such file or none for us.
func (t tree) optional(name string) (string, error) {
	s, err := t.text(name)
	if absent(err) {
		return "", nil
	}
	return s, err
}

// number reads a file that holds one number; 0 where there is no such file.
func (t tree) number(name string) (int64, error) {
	s, err := t.optional(name)
	if err != nil || s == "" {
		return 0, err
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s: %q must be a whole number", t.path(name), s)
	}
	return n, nil
}

// names lists a directory in order; nothing where there is none.
func (t tree) names(dir string) ([]string, error) {
	entries, err := os.ReadDir(t.path(dir))
	if absent(err) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// nearest returns the path of a directory or of the first one above it that is
// there.
func (t tree) nearest(dir string) string {
	for dir = filepath.Join("/", dir); dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(t.path(dir)); err == nil {
			break
		}
	}
	return t.path(dir)
}

// absent takes a file that we may not read for one that is not there: containers
// hide files of the machine in both ways.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)
}
