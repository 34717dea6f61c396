package staticpods

import (
	"path/filepath"

	"github.com/nodekit-go/nodekit/internal/dirwatch"
)

// watcher tells that something may have changed under a path. It only speeds a
// source up: what it misses, the next periodic look finds.
type watcher interface {
	// Wake delivers a value after changes. It is never closed.
	Wake() <-chan struct{}
	// Follow is called after each look: dev and ino are those of what the path
	// leads to now, zero when there is nothing. It reports whether events of that
	// come only from now on, so that another look is due.
	Follow(dev, ino uint64) (fresh bool, err error)
	// Removed returns the paths that were removed since the last call, also if they are
	// there again.
	Removed() []string
	Close() error
}

// inotify watches a directory, or the directory of a file, and the parent of the
// path, where a link to another directory or a new path appears.
type inotify struct {
	*dirwatch.Watcher
	path     string
	dev, ino uint64
}

// newInotify leaves out the neighbours of the path in its parent.
func newInotify(path string) (watcher, error) {
	w, err := dirwatch.Open(func(name string) bool {
		return name == path || filepath.Dir(name) == path
	})
	if err != nil {
		return nil, err
	}
	return &inotify{Watcher: w, path: path}, nil
}

// Follow implements watcher. A watch ends with its directory, whose number a new
// directory may get.
func (n *inotify) Follow(dev, ino uint64) (fresh bool, err error) {
	if dev == n.dev && ino == n.ino && n.Watches(n.path) {
		return false, nil
	}
	n.Remove(n.path) // the watch of what the path led to before, if any
	n.dev, n.ino = 0, 0
	parent := !n.Watches(filepath.Dir(n.path))
	err = n.Add(filepath.Dir(n.path))
	if ino == 0 {
		return parent && err == nil, err
	}
	if err := n.Add(n.path); err != nil {
		return false, err
	}
	n.dev, n.ino = dev, ino
	return true, err
}
