package source

import (
	"context"
	"log/slog"
	"time"

	"github.com/fsnotify/fsnotify"
)

// watch tells of changes in a directory through inotify, as hints: without it, or
// when it misses something, the periodic relist finds out.
type watch struct {
	path string
	log  *slog.Logger
	fs   *fsnotify.Watcher // nil if inotify is not to be had
}

func newWatch(path string, log *slog.Logger) *watch {
	w := &watch{path: path, log: log}
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("no watch: changes are found at the next relist", "dir", path, "err", err)
		return w
	}
	w.fs = fs
	return w
}

// follow (again) watches what path names now: the directory may have appeared, or
// another may have taken its place.
func (w *watch) follow() {
	if w.fs == nil {
		return
	}
	if err := w.fs.Add(w.path); err != nil {
		w.log.Debug("no watch: changes are found at the next relist", "dir", w.path, "err", err)
	}
}

// events returns the channel of changes, nil without a watch.
func (w *watch) events() <-chan fsnotify.Event {
	if w.fs == nil {
		return nil
	}
	return w.fs.Events
}

// errors returns the channel of the watch's failures, such as an overflow of its
// queue; nil without a watch.
func (w *watch) errors() <-chan error {
	if w.fs == nil {
		return nil
	}
	return w.fs.Errors
}

// settle returns after no event for a quiet, or after ten times that.
func (w *watch) settle(ctx context.Context, quiet time.Duration) {
	limit := time.NewTimer(10 * quiet)
	defer limit.Stop()
	for {
		t := time.NewTimer(quiet)
		select {
		case <-ctx.Done():
		case <-limit.C:
		case <-t.C:
		case <-w.events():
			t.Stop()
			continue
		case err := <-w.errors():
			w.log.Debug("watch missed changes", "dir", w.path, "err", err)
			t.Stop()
			continue
		}
		t.Stop()
		return
	}
}

func (w *watch) close() {
	if w.fs != nil {
		if err := w.fs.Close(); err != nil {
			w.log.Warn("close watch", "dir", w.path, "err", err)
		}
	}
}
