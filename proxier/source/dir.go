package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Defaults of DirConfig.
const (
	DefaultRelist = 20 * time.Second
	DefaultSettle = 50 * time.Millisecond
)

// DirConfig configures a Dir. The zero value works.
type DirConfig struct {
	// Relist is how often the directory is read although the kernel told of no
	// change. 0 means DefaultRelist.
	Relist time.Duration
	// Settle is the quiet to wait for after a change before reading, so that a file
	// is seldom read half written. 0 means DefaultSettle. Ten times that is the
	// longest wait.
	Settle time.Duration
	// Log gets each Problem when it appears. Nil discards it.
	Log *slog.Logger
}

// Dir delivers the Services and EndpointSlices of the files of one directory with
// the extension .yaml, .yml or .json; not of its subdirectories, nor of hidden
// files. A file that becomes bad keeps what it said before in force; a directory
// that cannot be read keeps everything. If two files have an object of one name,
// the file that comes first by name counts.
type Dir struct {
	path string
	sink Sink
	cfg  DirConfig
	// Of Run alone.
	files    map[string]*file // by path
	services map[types.NamespacedName]*corev1.Service
	slices   map[types.NamespacedName]*discoveryv1.EndpointSlice

	mu       sync.Mutex // guards problems
	problems []Problem
}

// NewDir returns a Dir that delivers into sink. It reads nothing before Run; the
// directory need not exist yet.
func NewDir(path string, sink Sink, cfg DirConfig) (*Dir, error) {
	if path == "" || sink == nil {
		return nil, errors.New("source: a Dir needs a path and a Sink")
	}
	if cfg.Relist < 0 || cfg.Settle < 0 {
		return nil, fmt.Errorf("source: Relist %v and Settle %v must not be negative", cfg.Relist, cfg.Settle)
	}
	if cfg.Relist == 0 {
		cfg.Relist = DefaultRelist
	}
	if cfg.Settle == 0 {
		cfg.Settle = DefaultSettle
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Dir{
		path: path, sink: sink, cfg: cfg,
		files:    map[string]*file{},
		services: map[types.NamespacedName]*corev1.Service{},
		slices:   map[types.NamespacedName]*discoveryv1.EndpointSlice{},
	}, nil
}

// Run watches the directory until ctx ends, and then returns nil. The sink is
// synced once the directory could be read.
func (d *Dir) Run(ctx context.Context) error {
	w := newWatch(d.path, d.cfg.Log)
	defer w.close()
	relist := time.NewTicker(d.cfg.Relist)
	defer relist.Stop()
	for {
		w.follow()
		d.scan()
		select {
		case <-ctx.Done():
			return nil
		case <-relist.C: // whatever the watch may have missed
		case <-w.events():
			w.settle(ctx, d.cfg.Settle)
		case err := <-w.errors():
			d.cfg.Log.Warn("watch missed changes", "dir", d.path, "err", err)
		}
	}
}

// Problems returns what is wrong with the files now.
func (d *Dir) Problems() []Problem {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.problems)
}

// scan reads the directory once and delivers what differs from before.
func (d *Dir) scan() {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		d.settle([]Problem{{Path: d.path, Reason: err.Error() + "; what was read before stays in force"}})
		return
	}
	now := map[string]*file{}
	for _, e := range entries {
		if path := filepath.Join(d.path, e.Name()); isManifest(e.Name()) {
			if f := load(path, d.files[path]); f != nil {
				now[path] = f
			}
		}
	}
	d.files = now

	var problems []Problem
	services := set[*corev1.Service]{}
	endpointSlices := set[*discoveryv1.EndpointSlice]{}
	for _, path := range slices.Sorted(maps.Keys(now)) {
		problems = append(problems, now[path].problems...)
		if now[path].good == nil {
			continue
		}
		for _, svc := range now[path].good.Services {
			problems = services.put(problems, path, "Service", svc)
		}
		for _, es := range now[path].good.EndpointSlices {
			problems = endpointSlices.put(problems, path, "EndpointSlice", es)
		}
	}
	deliver(d.services, services, d.sink.SetService, d.sink.DeleteService)
	deliver(d.slices, endpointSlices, d.sink.SetEndpointSlice, d.sink.DeleteEndpointSlice)
	d.sink.Synced()
	d.settle(problems)
}

// set holds the objects of one kind with the file that each is from.
type set[T metav1.Object] map[types.NamespacedName]from[T]

type from[T metav1.Object] struct {
	path string
	obj  T
}

// put adds obj unless an earlier file has it; that is a problem, which it appends.
func (s set[T]) put(problems []Problem, path, kind string, obj T) []Problem {
	name := types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	if first, taken := s[name]; taken {
		return append(problems, Problem{
			Path:   path,
			Reason: fmt.Sprintf("%s %s is ignored: it is also in %s, which comes first", kind, name, first.path),
		})
	}
	s[name] = from[T]{path: path, obj: obj}
	return problems
}

// deliver brings the sink from before to now, and before up to date.
func deliver[T metav1.Object](before map[types.NamespacedName]T, now set[T], put func(T), remove func(types.NamespacedName)) {
	for name, f := range now {
		if old, known := before[name]; known && reflect.DeepEqual(old, f.obj) {
			continue
		}
		before[name] = f.obj
		put(f.obj)
	}
	for name := range before {
		if _, there := now[name]; !there {
			delete(before, name)
			remove(name)
		}
	}
}

// settle keeps the problems and logs those that are new.
func (d *Dir) settle(problems []Problem) {
	d.mu.Lock()
	before := d.problems
	d.problems = problems
	d.mu.Unlock()
	known := make(map[Problem]bool, len(before))
	for _, p := range before {
		known[p] = true
	}
	for _, p := range problems {
		if !known[p] {
			d.cfg.Log.Warn("manifest problem", "file", p.Path, "line", p.Line, "field", p.Field, "reason", p.Reason)
		}
	}
}
