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
	readTimeout  = 30 * time.Second
	watchTimeout = 5 * time.Minute
)

// retry is the wait after the next failure.
type retry struct{ wait time.Duration }

// next returns it, with up to a fifth more, so that objects do not come all at once.
func (r *retry) next() time.Duration {
	r.wait = min(max(firstRetry, 2*r.wait), maxRetry)
	return r.wait + rand.N(r.wait/5)
}

// follow keeps an entry as the API server has it until nobody refers to it.
func (s *Store) follow(e *entry) {
	var r retry
	for e.life.Err() == nil {
		err := s.round(e, &r)
		if err == nil {
			continue
		}
		if r.wait == 0 {
			s.cfg.Log.Warn("object of pods cannot be read, trying again", "object", e.key.String(), "err", err)
		}
		pause(e.life, r.next(), e.wanted)
	}
}

// round reads the object and follows it until it has to be read again.
func (s *Store) round(e *entry, r *retry) error {
	number := s.begin(e)
	l, err := s.read(e)
	if e.life.Err() != nil {
		return nil
	}
	if err != nil {
		s.failed(e, number, err)
		return err
	}
	r.wait = 0
	s.found(e, number, l.object)
	if l.object != nil && immutable(l.object) {
		select {
		case <-e.life.Done(): // nobody refers to it any more
		case <-e.wanted: // a new pod does; the name may stand for another object by now
		}
		return nil
	}
	return s.watch(e, l.version)
}

// options select one object by its name.
func (e *entry) options() metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: "metadata.name=" + e.key.name}
}

func (s *Store) read(e *entry) (listing, error) {
	ctx, cancel := context.WithTimeout(e.life, readTimeout)
	defer cancel()
	return s.clients[e.key.kind].list(ctx, e.key.namespace, e.options())
}

// watch follows the object from a version on. It returns nil when the object has to be
// read again soon, an error when it should rather wait.
func (s *Store) watch(e *entry, version string) error {
	for {
		began := time.Now()
		next, err := s.watchOnce(e, version)
		if err != nil || next == "" || e.life.Err() != nil {
			return err
		}
		if version = next; time.Since(began) < time.Second {
			return errors.New("the watch ended at once")
		}
	}
}

// watchOnce follows the object until the watch ends by itself. It returns the version
// to go on from, empty to read the object again.
func (s *Store) watchOnce(e *entry, version string) (next string, err error) {
	opts := e.options()
	seconds := int64((watchTimeout + rand.N(watchTimeout)).Seconds())
	opts.ResourceVersion, opts.TimeoutSeconds, opts.AllowWatchBookmarks = version, &seconds, true
	w, err := s.clients[e.key.kind].watch(e.life, e.key.namespace, opts)
	if err != nil {
		return "", fmt.Errorf("watch: %w", err)
	}
	defer w.Stop()
	for {
		select {
		case <-e.life.Done(): // nobody refers to it any more
			return "", nil
		case <-e.wanted: // a new pod does
			return "", nil
		case event, ok := <-w.ResultChan():
			if !ok {
				return version, nil
			}
			if version, err = s.event(e, &event); version == "" || err != nil {
				return "", err
			}
		}
	}
}

// event takes in one event and returns the version it makes known, empty to read the
// object again.
func (s *Store) event(e *entry, event *watch.Event) (version string, err error) {
	if event.Type == watch.Error {
		if err := apierrors.FromObject(event.Object); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			return "", fmt.Errorf("watch: %w", err)
		}
		return "", nil
	}
	object, ok := event.Object.(metav1.Object)
	if !ok {
		return "", fmt.Errorf("watch: unexpected object %T in an event %s", event.Object, event.Type)
	}
	version = object.GetResourceVersion()
	switch event.Type {
	case watch.Added, watch.Modified:
		if object.GetName() != e.key.name {
			return "", fmt.Errorf("watch: the API server told of %q", object.GetName())
		}
		s.found(e, 0, object)
		if immutable(object) {
			return "", nil
		}
	case watch.Deleted:
		s.found(e, 0, nil)
	case watch.Bookmark, watch.Error:
	}
	return version, nil
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
