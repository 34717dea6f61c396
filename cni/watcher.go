package cni

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// DefaultPeriod is how often a Watcher looks when no event comes: the time that a
// node may be not ready for want of an event.
const DefaultPeriod = 10 * time.Second

// WatcherConfig is what a Watcher needs besides its directory.
type WatcherConfig struct {
	// Period is the time between two looks when no event comes; 0 is DefaultPeriod.
	Period time.Duration
	// Changed is called after each look that found something else than the one before,
	// from the goroutine of Run; nil is not called.
	Changed func(Selection)
	// Log gets a line for each change; nil discards them.
	Log *slog.Logger
}

// Watcher follows a directory of network configurations. A file that breaks keeps
// the network that it described last, until it is mended or removed. Make one with
// NewWatcher.
type Watcher struct {
	dir  string
	cfg  WatcherConfig
	open func(dir string) (events, error)

	// mu guards now, which Run replaces.
	mu  sync.Mutex
	now Selection
}

// NewWatcher returns a watcher of a directory, which need not exist. It reads
// nothing yet.
func NewWatcher(dir string, cfg WatcherConfig) (*Watcher, error) {
	return newWatcher(dir, cfg, openInotify)
}

func newWatcher(dir string, cfg WatcherConfig, open func(string) (events, error)) (*Watcher, error) {
	if dir == "" {
		return nil, errors.New("cni: the directory of the network configurations is empty; runtimes use /etc/cni/net.d")
	}
	if cfg.Period < 0 {
		return nil, fmt.Errorf("cni: WatcherConfig.Period is %s, must not be negative", cfg.Period)
	}
	if cfg.Period == 0 {
		cfg.Period = DefaultPeriod
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("cni: %w", err)
	}
	unread := Selection{Reason: Unread, Err: fmt.Errorf("%w: directory %s has not been read yet", ErrNoNetwork, absolute)}
	return &Watcher{dir: absolute, cfg: cfg, open: open, now: unread}, nil
}

// Selection returns what the last look found. Any goroutine may call it. The files
// are the caller's, the networks are shared.
func (w *Watcher) Selection() Selection {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now
	now.Files = slices.Clone(now.Files)
	return now
}

// Network returns the network for new pods, or an ErrNoNetwork with the reason.
func (w *Watcher) Network() (*Network, error) {
	s := w.Selection()
	return s.Network, s.Err
}

// Run follows the directory until ctx is cancelled; it then returns nil. It is
// called once. Without inotify it goes on with periodic looks. A directory that
// cannot be read keeps the last selection.
func (w *Watcher) Run(ctx context.Context) error {
	var wake <-chan struct{}
	ev, err := w.open(w.dir)
	if err != nil {
		w.cfg.Log.Warn("no events of the file system, CNI configurations are read periodically", "dir", w.dir, "period", w.cfg.Period, "err", err)
	} else {
		defer ev.Close() //nolint:errcheck // the watches end either way
		wake = ev.Wake()
	}
	tick := time.NewTicker(w.cfg.Period)
	defer tick.Stop()
	for {
		if ev != nil {
			ev.Follow()
		}
		w.look()
		select {
		case <-ctx.Done():
			return nil
		case <-wake: // something changed
		case <-tick.C: // something may have been missed
		}
	}
}

// look takes one look and reports what changed.
func (w *Watcher) look() {
	last := w.Selection()
	next := scan(w.dir, last.Files)
	if next.Reason == Unreadable {
		next.Files = last.Files
		if last.Network != nil {
			next.Network, next.Reason, next.Err = last.Network, 0, nil
		}
	}
	if same(last, next) {
		return
	}
	w.mu.Lock()
	w.now = next
	w.mu.Unlock()
	w.log(last, next)
	if w.cfg.Changed != nil {
		next.Files = slices.Clone(next.Files)
		w.cfg.Changed(next)
	}
}

// same reports whether two looks found the same.
func same(a, b Selection) bool {
	return a.Network == b.Network && a.Reason == b.Reason && text(a.Err) == text(b.Err) &&
		slices.EqualFunc(a.Files, b.Files, func(x, y File) bool {
			return x.Path == y.Path && x.Network == y.Network && text(x.Err) == text(y.Err)
		})
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (w *Watcher) log(last, next Selection) {
	for _, f := range next.Files {
		i := slices.IndexFunc(last.Files, func(l File) bool { return l.Path == f.Path })
		if f.Err != nil && (i < 0 || text(last.Files[i].Err) != text(f.Err)) {
			w.cfg.Log.Error("CNI configuration broken", "path", f.Path, "err", f.Err, "kept", f.Network != nil)
		}
	}
	switch {
	case next.Network == last.Network && next.Reason == last.Reason:
	case next.Network != nil:
		w.cfg.Log.Info("CNI network", "network", next.Network.String(), "path", next.Network.File)
	default:
		w.cfg.Log.Warn("no CNI network", "reason", next.Reason, "err", next.Err)
	}
}
