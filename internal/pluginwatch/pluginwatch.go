package pluginwatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nodekit-go/nodekit/internal/dirwatch"
)

// Types of plugins, from k8s.io/kubelet/pkg/apis/pluginregistration/v1.
const (
	CSI     = "CSIPlugin"
	Devices = "DevicePlugin"
	DRA     = "DRAPlugin"
)

const (
	// defaultTimeout bounds a call to a plugin, as the kubelet bounds the connection.
	defaultTimeout = 10 * time.Second
	// A failed registration is tried again after firstPause, twice as long each time, up
	// to lastPause: the kubelet's figures for operations that fail.
	firstPause = 500 * time.Millisecond
	lastPause  = 2*time.Minute + 2*time.Second
	// lookPause is the longest time between two looks at the directory: events may get
	// lost.
	lookPause = 10 * time.Second
	// dirMode is that of the directory if it has to be made.
	dirMode = 0o755
)

// Plugin is one that told who it is.
type Plugin struct {
	// Type is the kind of plugin and Name is unique among its kind.
	Type, Name string
	// Endpoint is the path of the socket on which it serves.
	Endpoint string
	// Versions are those of its API that it speaks.
	Versions []string
	// Socket is the path of the one on which it registered.
	Socket string
}

// Handler decides about the plugins of one type. Its methods are called for one plugin
// at a time, and for several at once. They have to return when their ctx ends.
type Handler interface {
	// Register takes a plugin. An error is told to the plugin, and it is asked again
	// later. It is called anew for a plugin that was registered when its socket was made
	// anew, after Deregister.
	Register(ctx context.Context, p Plugin) error
	// Deregister is told that a plugin that was registered is gone.
	Deregister(ctx context.Context, p Plugin)
}

// Config is what a Watcher needs. Dir and Handlers are required.
type Config struct {
	// Dir is the directory with the sockets, also in directories below it. It is made if
	// it does not exist. Names that begin with a dot are left alone.
	Dir string
	// Handlers has who decides, by the type of plugin. Plugins of other types are
	// refused.
	Handlers map[string]Handler
	// Timeout bounds each call to a plugin; 0: ten seconds.
	Timeout time.Duration
	// Log gets what plugins are registered, and what fails; nil discards.
	Log *slog.Logger
}

// Watcher registers plugins. Make one with New.
type Watcher struct {
	cfg    Config
	log    *slog.Logger
	open   func(concerns func(name string) bool) (*dirwatch.Watcher, error)
	claims claims
}

// New returns a Watcher. It does nothing yet.
func New(cfg Config) (*Watcher, error) {
	switch {
	case !filepath.IsAbs(cfg.Dir):
		return nil, fmt.Errorf("pluginwatch: Config.Dir is %q, want an absolute path", cfg.Dir)
	case len(cfg.Handlers) == 0:
		return nil, errors.New("pluginwatch: Config.Handlers is empty, so that every plugin would be refused")
	case cfg.Timeout < 0:
		return nil, fmt.Errorf("pluginwatch: Config.Timeout is %s, want 0 (ten seconds) or more", cfg.Timeout)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Watcher{cfg: cfg, log: log, open: dirwatch.Open, claims: claims{held: map[claim]*holder{}}}, nil
}

// errGone is the cause by which the goroutine of a socket ends that is not there any
// more.
var errGone = errors.New("the socket is gone")

// tended is a socket that has a goroutine.
type tended struct {
	identity identity
	end      context.CancelCauseFunc
	done     chan struct{} // closed when the goroutine has ended
}

func (s *tended) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// Run registers plugins until ctx ends, and returns when no call is out any more. A
// directory that cannot be made is an error at the start; later on it is looked at again.
// One that cannot be watched is looked at every 10 s, and the log says so.
func (w *Watcher) Run(ctx context.Context) error {
	if err := os.MkdirAll(w.cfg.Dir, dirMode); err != nil {
		return fmt.Errorf("pluginwatch: %w", err)
	}
	var wake <-chan struct{}
	follow := func(string) {}
	events, err := w.open(func(name string) bool { return !strings.HasPrefix(filepath.Base(name), ".") })
	if err != nil {
		w.log.Warn("plugins are looked for every 10 s only, as there is no inotify instance left: raise fs.inotify.max_user_instances", "dir", w.cfg.Dir, "err", err)
	} else {
		defer func() { _ = events.Close() }() // nothing is lost by it
		wake, follow = events.Wake(), w.follow(events)
		follow(w.cfg.Dir)
	}
	sockets := map[string]*tended{}
	var all sync.WaitGroup
	defer all.Wait()
	look := time.NewTicker(lookPause)
	defer look.Stop()
	for {
		found, err := scan(w.cfg.Dir, follow)
		if err != nil {
			w.log.Warn("directory of plugins not read", "dir", w.cfg.Dir, "err", err)
		} else {
			w.adjust(ctx, &all, sockets, found)
		}
		select {
		case <-wake: // something changed
		case <-look.C: // an event may have been lost
		case <-ctx.Done():
			return nil
		}
	}
}

// follow returns what has a directory watched, too.
func (w *Watcher) follow(events *dirwatch.Watcher) func(dir string) {
	return func(dir string) {
		if err := events.Add(dir); err != nil {
			w.log.Warn("directory of plugins not watched, it is looked at every 10 s", "dir", dir, "err", err)
		}
	}
}

// adjust starts and ends goroutines, so that each socket that was found has one.
func (w *Watcher) adjust(ctx context.Context, all *sync.WaitGroup, sockets map[string]*tended, found map[string]identity) {
	for path, s := range sockets {
		if now, ok := found[path]; !ok || now != s.identity {
			s.end(errGone)
			s.identity = identity{} // not that of any socket
		}
		if _, ok := found[path]; !ok && s.ended() {
			delete(sockets, path)
		}
	}
	for path, now := range found {
		before := sockets[path]
		if before != nil && before.identity == now {
			continue
		}
		life, end := context.WithCancelCause(ctx)
		s := &tended{identity: now, end: end, done: make(chan struct{})}
		sockets[path] = s
		all.Go(func() {
			defer end(nil)
			defer close(s.done)
			if before != nil {
				<-before.done // it has been told to end
			}
			w.tend(life, path)
		})
	}
}
