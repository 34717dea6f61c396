package objects

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// The waits after failures. The first is short: the Node authorizer takes a moment to
// learn that a pod was bound to the node.
const (
	firstRetry = 200 * time.Millisecond
	maxRetry   = 30 * time.Second
)

// readTimeout bounds one list. A watch is asked to end after a time between
// watchTimeout and its double, as by client-go's reflectors.
const (
	readTimeout  = 10 * time.Second
	watchTimeout = 5 * time.Minute
)

// settled is how long a watch has to last to count as one that works.
const settled = time.Second

// retry is the wait after the next failure.
type retry struct{ wait time.Duration }

// next returns it, with up to a fifth more, so that objects do not come all at once.
func (r *retry) next() time.Duration {
	r.wait = min(max(firstRetry, 2*r.wait), maxRetry)
	return r.wait + rand.N(r.wait/5)
}

// follower keeps an entry as the API server has it.
type follower struct {
	store *Store
	entry *entry
	// life ends when no pod refers to the object any more.
	life context.Context //nolint:containedctx // the follower is its goroutine
	retry
}

// run follows the object until no pod refers to it.
func (f *follower) run() {
	for f.life.Err() == nil {
		if f.round() {
			f.wait = 0
		} else {
			pause(f.life, f.next(), f.entry.wanted)
		}
	}
}

// round reads the object and follows it until it has to be read again. It is false when
// that should rather wait.
func (f *follower) round() bool {
	number := f.store.begin(f.entry)
	l, err := f.read()
	if f.life.Err() != nil {
		return true
	}
	if err != nil {
		if f.store.failed(f.entry, number, err) {
			f.store.cfg.Log.Warn("object that pods refer to cannot be read, trying again", "object", describe(f.entry.name), "err", err)
		}
		return false
	}
	f.store.found(f.entry, number, l.object)
	if l.object == nil || !immutable(l.object) {
		return f.watch(l.version)
	}
	select {
	case <-f.life.Done(): // nobody refers to it any more
	case <-f.entry.wanted: // a new pod does; the name may stand for another object by now
	}
	return true
}

func (f *follower) client() client { return f.store.clients[f.entry.name.Kind] }

// options select the object by its name.
func (f *follower) options() metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: "metadata.name=" + f.entry.name.Name}
}

func (f *follower) read() (listing, error) {
	ctx, cancel := context.WithTimeout(f.life, readTimeout)
	defer cancel()
	return f.client().list(ctx, f.entry.name.Namespace, f.options())
}

// errWanted says that a watch is given up for a new pod.
var errWanted = errors.New("a new pod refers to the object")

// watch follows the object from a version on, and returns when it has to be read again:
// true at once, false after a while.
func (f *follower) watch(version string) bool {
	for {
		began := time.Now()
		var err error
		version, err = f.watchOnce(version)
		worked := time.Since(began) >= settled
		if err != nil && f.life.Err() == nil {
			f.store.cfg.Log.Debug("object is read again", "object", describe(f.entry.name), "err", err)
		}
		switch {
		case f.life.Err() != nil, errors.Is(err, errWanted):
			return true
		case err != nil || !worked:
			return worked
		}
	}
}

// watchOnce follows the object until the watch ends by itself; then it returns the
// version to go on from.
func (f *follower) watchOnce(version string) (next string, err error) {
	opts := f.options()
	seconds := int64((watchTimeout + rand.N(watchTimeout)).Seconds())
	opts.ResourceVersion, opts.TimeoutSeconds, opts.AllowWatchBookmarks = version, &seconds, true
	w, err := f.client().watch(f.life, f.entry.name.Namespace, opts)
	if err != nil {
		return "", fmt.Errorf("watch: %w", err)
	}
	defer w.Stop()
	for {
		select {
		case <-f.life.Done(): // nobody refers to it any more
			return "", f.life.Err()
		case <-f.entry.wanted: // a new pod does
			return "", errWanted
		case event, ok := <-w.ResultChan(): // something has happened to it
			if !ok {
				return version, nil
			}
			if version, err = f.take(&event); err != nil {
				return "", err
			}
		}
	}
}

// take takes in one event and returns the version it makes known.
func (f *follower) take(event *watch.Event) (version string, err error) {
	if event.Type == watch.Error {
		return "", fmt.Errorf("watch: %w", apierrors.FromObject(event.Object))
	}
	object, ok := event.Object.(metav1.Object)
	if !ok {
		return "", fmt.Errorf("watch: the API server sent a %T with an event %s", event.Object, event.Type)
	}
	switch event.Type {
	case watch.Added, watch.Modified:
		if !f.entry.holds(object) {
			return "", fmt.Errorf("watch: the API server told of a %T named %q", object, object.GetName())
		}
		f.store.found(f.entry, 0, object)
		if immutable(object) {
			return "", errors.New("it has become immutable")
		}
	case watch.Deleted:
		f.store.found(f.entry, 0, nil)
	case watch.Bookmark, watch.Error:
	}
	return object.GetResourceVersion(), nil
}

// pause waits for a time, which a demand shortens, but not below the first wait.
func pause(ctx context.Context, d time.Duration, wanted <-chan struct{}) {
	least := min(d, firstRetry)
	if !sleep(ctx, least, nil) {
		return
	}
	sleep(ctx, d-least, wanted)
}

// sleep is false when ctx ended first.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-timer.C:
	}
	return true
}
