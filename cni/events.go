package cni

import (
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

// events tells that something may have changed in a directory. It only speeds a
// Watcher up: what it misses, the next periodic look finds.
type events interface {
	// Wake delivers a value after changes. It is never closed.
	Wake() <-chan struct{}
	// Follow is called before each look: the directory may be new.
	Follow()
	Close()
}

// inotify watches a directory and its parent, in which the directory, or a link to
// another one, appears.
type inotify struct {
	dir  string
	fs   *fsnotify.Watcher
	wake chan struct{}
	done chan struct{}
}

// openInotify opens an inotify instance. Its limit per user is
// fs.inotify.max_user_instances.
func openInotify(dir string) (events, error) {
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	n := &inotify{dir: dir, fs: fs, wake: make(chan struct{}, 1), done: make(chan struct{})}
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
			if e.Name != n.dir && filepath.Dir(e.Name) == filepath.Dir(n.dir) {
				continue // a neighbour of the directory
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

// Wake implements events.
func (n *inotify) Wake() <-chan struct{} { return n.wake }

// Follow implements events. What cannot be watched is found by the periodic look.
func (n *inotify) Follow() {
	_ = n.fs.Add(filepath.Dir(n.dir))
	_ = n.fs.Add(n.dir)
}

// Close implements events, and waits for the goroutine.
func (n *inotify) Close() {
	_ = n.fs.Close()
	<-n.done
}
