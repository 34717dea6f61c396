package staticpods

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// DefaultPeriod is the kubelet's fileCheckFrequency.
	DefaultPeriod = 20 * time.Second
	// DefaultSettle is longer than an editor takes to write a file, and shorter
	// than a person waits for an effect.
	DefaultSettle = 250 * time.Millisecond
)

// Set is everything a source knows. The objects are shared with the source: read
// them only.
type Set struct {
	Pods []*corev1.Pod
	// ConfigMaps and Secrets stand in the manifests beside the pods, and are for these
	// pods only. An object that has not changed is the same as in the last set.
	ConfigMaps []*corev1.ConfigMap
	Secrets    []*corev1.Secret
	// PutBack are pods of the set whose manifest was removed since the last set, and is
	// back as it was: they have to end and to start anew, as if they had been out of the
	// set between. No later set names them again.
	PutBack []types.UID
}

// Config is what a Source needs besides its path.
type Config struct {
	// NodeName is required: it becomes part of each pod's name and UID.
	NodeName string
	// Period is the time between two looks when no event comes; 0 is DefaultPeriod.
	Period time.Duration
	// Settle is how long a file must stay as it is before it is read, and how long
	// a name must be gone before its pod leaves; 0 is DefaultSettle.
	Settle time.Duration
	// Strict refuses manifests with unknown fields and with fields that are set
	// twice. By default they are warnings in the status, because a manifest that
	// was written for a newer release runs on.
	Strict bool
	// AdoptUID is asked once for each new manifest without metadata.uid. It gets
	// the finished pod with the UID it would have, and returns the UID of a pod that
	// already runs from the same manifest, so that a move from another kubelet
	// restarts nothing. It is called from the goroutine of Run and must not block;
	// nil adopts none.
	AdoptUID func(*corev1.Pod) (types.UID, bool)
	// Log gets a line for each change of a file's status; nil discards them.
	Log *slog.Logger
}

func (c *Config) complete() error {
	switch {
	case c.NodeName == "":
		return errors.New("Config.NodeName is empty; it becomes part of each pod's name")
	case c.Period < 0:
		return fmt.Errorf("Config.Period is %s, must not be negative", c.Period)
	case c.Settle < 0:
		return fmt.Errorf("Config.Settle is %s, must not be negative", c.Settle)
	}
	if bad := validation.IsDNS1123Subdomain(c.NodeName); len(bad) > 0 {
		return fmt.Errorf("Config.NodeName %q: %s", c.NodeName, bad[0])
	}
	if c.Period == 0 {
		c.Period = DefaultPeriod
	}
	if c.Settle == 0 {
		c.Settle = DefaultSettle
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Source delivers the pods of a directory or a file, and the objects beside them. Make one with Dir.
type Source struct {
	path  string
	cfg   Config
	watch func(path string) (watcher, error)
	board board
}

// Dir returns a source of the manifests in a directory, or of the one manifest
// if path is a file. It reads nothing yet, and the path need not exist.
func Dir(path string, cfg Config) (*Source, error) {
	return newSource(path, cfg, newInotify)
}

func newSource(path string, cfg Config, watch func(string) (watcher, error)) (*Source, error) {
	if path == "" {
		return nil, errors.New("static pods: the path of the manifests is empty")
	}
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("static pods: %w", err)
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("static pods: %w", err)
	}
	return &Source{path: absolute, cfg: cfg, watch: watch, board: board{path: absolute, log: cfg.Log}}, nil
}

// Statuses returns the status of every file that is not hidden, in the order of
// their names; first that of the path itself when it is missing or unreadable. It
// is empty before the first look. Any goroutine may call it.
func (s *Source) Statuses() []FileStatus { return s.board.list() }

// Run calls set with the whole set, once at the start and then after each
// change, until ctx is cancelled; it then returns nil. It is called once, and
// calls set from its own goroutine.
//
// A path that does not exist is an empty set: removing the directory stops its
// pods. A path that cannot be read is not: set is not called until it can, and
// the last set stays in force; Statuses has the reason. Without inotify the
// source goes on with periodic looks.
func (s *Source) Run(ctx context.Context, set func(Set)) (err error) {
	r := &run{Source: s, ledger: newLedger(s.cfg.Settle, s.cfg.AdoptUID), set: set}
	var wake <-chan struct{}
	w, err := s.watch(s.path)
	if err != nil {
		s.cfg.Log.Warn("no events of the file system, static pods are read periodically", "path", s.path, "period", s.cfg.Period, "err", err)
	} else {
		r.watcher, wake = w, w.Wake()
		defer func() { err = errors.Join(err, w.Close()) }()
	}
	for ctx.Err() == nil {
		pause := s.cfg.Settle / pauses
		wait(ctx, max(pause, r.look(time.Now())-pause), wake)
		wait(ctx, pause, nil) // a file that never rests costs some looks per second
	}
	return nil
}

// pauses is how often a settle time the path is looked at while events come.
const pauses = 4

// wait returns after d, at a wake-up, or when ctx ends.
func wait(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake: // something changed under the path
	case <-timer.C: // a file has settled, or it is time to look anyway
	}
}

// run is the state of one Run.
type run struct {
	*Source
	ledger    *ledger
	watcher   watcher
	set       func(Set)
	delivered bool
	last      resolution
	warned    bool // the watcher's failure is in the log
}

// look takes one look at the path, delivers the set if it changed, and returns
// how long to wait for the next.
func (r *run) look(now time.Time) time.Duration {
	v, err := look(r.path)
	if r.follow(v) {
		v, err = look(r.path) // what changed before the watch began made no event
	}
	if err != nil {
		r.publish(FileStatus{State: Unreadable, Reason: err.Error()}, r.fileStatuses(), now)
		return r.cfg.Period
	}
	r.ledger.remove(r.removed())
	entries, again := r.ledger.observe(v, now)
	for _, e := range entries {
		again = sooner(again, r.read(e, now))
	}
	found := r.ledger.resolve(now)
	own := FileStatus{}
	if v.missing {
		own = FileStatus{State: Missing, Reason: "does not exist, so that there are no static pods"}
	}
	r.publish(own, found.statuses, now)
	r.deliver(found)
	return sooner(again, r.cfg.Period)
}

// read reads one file, and returns how long to wait before it is read again.
func (r *run) read(e entry, now time.Time) time.Duration {
	data, print, err := readFile(e.path)
	if errors.Is(err, fs.ErrNotExist) {
		return r.cfg.Settle // removed since the look
	}
	if err != nil {
		return r.ledger.record(e, print, result{failure: reason(err)}, now)
	}
	d := decoder{node: r.cfg.NodeName, strict: r.cfg.Strict}
	m, err := d.decode(data)
	return r.ledger.record(e, print, resultOf(data, m, err), now)
}

// follow keeps the watcher on what the path leads to, and reports whether another
// look is due.
func (r *run) follow(v view) bool {
	if r.watcher == nil {
		return false
	}
	fresh, err := r.watcher.Follow(v.dev, v.ino)
	if err != nil && !r.warned {
		r.cfg.Log.Warn("no events of the file system, static pods are read periodically", "path", r.path, "period", r.cfg.Period, "err", err)
	}
	r.warned = err != nil
	return fresh
}

// removed returns the names of files that were removed, also if they are there again.
func (r *run) removed() []string {
	if r.watcher == nil {
		return nil
	}
	names := r.watcher.Removed()
	for i := range names {
		names[i] = filepath.Base(names[i])
	}
	return names
}

// deliver hands the set out if it is new. The first waits until every file has
// been read: a pod that lacks in it would be stopped.
func (r *run) deliver(found resolution) {
	same := slices.Equal(found.pods, r.last.pods) && sameObjects(found.objects, r.last.objects)
	if !r.delivered && !r.ledger.settled() || r.delivered && same && len(found.putBack) == 0 {
		return
	}
	r.delivered, r.last = true, found
	set := Set{Pods: slices.Clone(found.pods), PutBack: found.putBack}
	set.ConfigMaps, set.Secrets = split(found.objects)
	r.set(set)
}

// fileStatuses returns the last statuses of the files in the path.
func (r *run) fileStatuses() []FileStatus {
	return slices.DeleteFunc(r.Statuses(), func(s FileStatus) bool { return s.Path == r.path })
}

// publish shows the statuses of the files, and first that of the path itself unless its
// State is zero.
func (r *run) publish(own FileStatus, files []FileStatus, now time.Time) {
	var all []FileStatus
	if own.State != 0 {
		own.Path = r.path
		all = append(all, own)
	}
	r.board.show(append(all, files...), now)
}
