package cni

import (
	"path/filepath"

	"github.com/nodekit-go/nodekit/internal/dirwatch"
)

// events tells that something may have changed in a directory. It only speeds a
// Watcher up: what it misses, the next periodic look finds.
type events interface {
	// Wake delivers a value after changes. It is never closed.
	Wake() <-chan struct{}
	// Follow is called before each look: the directory may be new.
	Follow()
	Close() error
}

// inotify watches a directory and its parent, in which the directory, or a link to
// another one, appears.
type inotify struct {
	*dirwatch.Watcher
	dir string
}

// openInotify leaves out the neighbours of the directory.
func openInotify(dir string) (events, error) {
	w, err := dirwatch.Open(func(name string) bool {
		return name == dir || filepath.Dir(name) != filepath.Dir(dir)
	})
	if err != nil {
		return nil, err
	}
	return inotify{w, dir}, nil
}

// Follow implements events. What cannot be watched is found by the periodic look.
func (n inotify) Follow() {
	_ = n.Add(filepath.Dir(n.dir))
	_ = n.Add(n.dir)
}
