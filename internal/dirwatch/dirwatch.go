// Package dirwatch turns inotify events into wake-ups for a loop that looks at a
// directory itself: events say that something may have changed, and of what only a look
// cannot see, that names were removed and are back.
package dirwatch

import (
	"maps"
	"slices"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// Watcher watches directories. Close it when it is no longer needed.
type Watcher struct {
	fs       *fsnotify.Watcher
	concerns func(name string) bool
	wake     chan struct{}
	done     chan struct{}

	mu      sync.Mutex // guards removed
	removed map[string]bool
}

// maxRemoved is how many names are remembered; of more nobody tells.
const maxRemoved = 1000

// Open returns a Watcher that watches nothing yet. Events about names for which
// concerns is false do not wake. It takes one inotify instance, whose limit per
// user is fs.inotify.max_user_instances.
func Open(concerns func(name string) bool) (*Watcher, error) {
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	w := &Watcher{fs: fs, concerns: concerns, wake: make(chan struct{}, 1), done: make(chan struct{}), removed: map[string]bool{}}
	go w.forward()
	return w, nil
}

// forward ends when Close has closed the channels of the library.
func (w *Watcher) forward() {
	defer close(w.done)
	events, errs := w.fs.Events, w.fs.Errors
	for events != nil || errs != nil {
		select {
		case e, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			if !w.concerns(e.Name) {
				continue
			}
			if e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename) { // away from that name
				w.remove(e.Name)
			}
		case _, ok := <-errs: // an overflow: look again, that is what the events were for
			if !ok {
				errs = nil
				continue
			}
		}
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

func (w *Watcher) remove(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.removed) < maxRemoved {
		w.removed[name] = true
	}
}

// Removed returns the paths whose names were removed from a watched directory since the
// last call, also if they are there again. A file that was replaced by another one in one
// step was not removed.
func (w *Watcher) Removed() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := slices.Sorted(maps.Keys(w.removed))
	clear(w.removed)
	return names
}

// Wake delivers a value after changes. It is never closed.
func (w *Watcher) Wake() <-chan struct{} { return w.wake }

// Add watches a directory; to add one twice is not an error.
func (w *Watcher) Add(dir string) error { return w.fs.Add(dir) }

// Remove ends the watch of a directory, if there is one.
func (w *Watcher) Remove(dir string) { _ = w.fs.Remove(dir) }

// Watches reports whether a directory is watched. A watch ends with its directory.
func (w *Watcher) Watches(dir string) bool { return slices.Contains(w.fs.WatchList(), dir) }

// Close ends all watches and waits for the goroutine.
func (w *Watcher) Close() error {
	err := w.fs.Close()
	<-w.done
	return err
}
