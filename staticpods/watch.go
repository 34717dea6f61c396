package staticpods

import (
	"path/filepath"
	"slices"

	"github.com/fsnotify/fsnotify"
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
	Close() error
}

// inotify watches a directory, or the directory of a file, and the parent of the
// path, where a link to another directory or a new path appears.
type inotify struct {
	path     string
	fs       *fsnotify.Watcher
	wake     chan struct{}
	done     chan struct{}
	dev, ino uint64
}

// newInotify opens an inotify instance. Its limit per user is
// fs.inotify.max_user_instances.
func newInotify(path string) (watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	n := &inotify{path: path, fs: w, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go n.forward()
	return n, nil
}

// forward ends when Close has closed the channels of the library.
func (n *inotify) forward() {
	defer close(n.done)
	events, errs := n.fs.Events, n.fs.Errors
	for events != nil || errs != nil {
		select {
		case e, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			if !n.concerns(e.Name) {
				continue
			}
		case _, ok := <-errs: // an overflow: look again, that is what the events were for
			if !ok {
				errs = nil
				continue
			}
		}
		select {
		case n.wake <- struct{}{}:
		default:
		}
	}
}

// concerns leaves out the neighbours of the path in its parent.
func (n *inotify) concerns(name string) bool {
	return name == n.path || filepath.Dir(name) == n.path
}

// Wake implements watcher.
func (n *inotify) Wake() <-chan struct{} { return n.wake }

// Follow implements watcher. A watch ends with its directory, whose number a new
// directory may get.
func (n *inotify) Follow(dev, ino uint64) (fresh bool, err error) {
	if dev == n.dev && ino == n.ino && slices.Contains(n.fs.WatchList(), n.path) {
		return false, nil
	}
	_ = n.fs.Remove(n.path) // the watch of what the path led to before, if any
	n.dev, n.ino = 0, 0
	parent := !slices.Contains(n.fs.WatchList(), filepath.Dir(n.path))
	err = n.fs.Add(filepath.Dir(n.path))
	if ino == 0 {
		return parent && err == nil, err
	}
	if err := n.fs.Add(n.path); err != nil {
		return false, err
	}
	n.dev, n.ino = dev, ino
	return true, err
}

// Close implements watcher, and waits for the goroutine.
func (n *inotify) Close() error {
	err := n.fs.Close()
	<-n.done
	return err
}
