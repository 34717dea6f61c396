package informer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// resource is one kind of object to watch, and who hears of it. The functions are
// called by one goroutine.
type resource struct {
	name           string
	labels, fields string
	list           func() runtime.Object
	set            func(runtime.Object)
	remove         func(types.NamespacedName)
	// complete is called when everything that the server has was passed to set; nil
	// is off.
	complete func()
	// optional resources hold nobody up once the server has delivered the others and
	// refuses them.
	optional bool
}

// Waits between attempts, and what is asked of the server: pages of a list, the
// longest watch (which ends at a random time up to it, so that all proxies of a
// cluster do not come back at once), and how long a stream of the first state may
// pause before the server is taken for one that does not know the request.
const (
	minRetry     = 100 * time.Millisecond
	maxRetry     = 30 * time.Second
	pageSize     = 1000
	maxWatch     = 10 * time.Minute
	streamPause  = 30 * time.Second
	livedEnough  = 5 * time.Second
	initialEnd   = metav1.InitialEventsAnnotationKey
	notOlderThan = metav1.ResourceVersionMatchNotOlderThan
)

// optionsVersion is that of the options of requests, for all API groups.
var optionsVersion = schema.GroupVersion{Version: "v1"} //nolint:gochecknoglobals // a constant

// reflector keeps the one who hears of a resource at what the server has.
type reflector struct {
	resource
	client    rest.Interface
	log       *slog.Logger
	delivered func()
	// required is closed when all that is not optional was delivered; nil for what is not
	// optional, and once that was seen.
	required <-chan struct{}
	// version is the highest resource version that was reached, and known says that
	// the sink has the state of it: otherwise all is to be delivered from scratch.
	version string
	known   bool
	// rewound says that no server at hand has reached version: only what the storage
	// says now is to be believed.
	rewound bool
	// canStream says that the server may know how to stream the first state.
	canStream bool
	// names are those of all objects that were delivered and not removed, with the
	// attempt at a whole state that told them last: what an attempt that breaks off has
	// delivered may be deleted before the next.
	names   map[types.NamespacedName]int
	attempt int
	// complaint is the error that was logged last.
	complaint string
}

// errExpired says that the server does not know the version any more, errRewound that
// it does not know it yet, or not again: its memory lags, or its storage was restored.
var (
	errExpired = errors.New("the server has forgotten the version that was reached")
	errRewound = errors.New("the server has not reached the version that was reached before")
)

func (r *reflector) run(ctx context.Context) {
	retry := minRetry
	for {
		begin := time.Now()
		err := r.step(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begin) > livedEnough {
			retry = minRetry
		}
		if errors.Is(err, errExpired) {
			r.known = false
		} else if err != nil {
			r.complain(ctx, err, retry)
			// While others are not delivered, the server may be about to come up.
			if r.optional && r.required == nil && denied(err) {
				r.delivered()
			}
		} else {
			r.complaint = ""
		}
		// Up to half as long again, so that proxies spread.
		if !r.pause(ctx, retry+rand.N(retry/2)) {
			return
		}
		retry = min(2*retry, maxRetry)
	}
}

// pause waits before the next attempt; not when the server has just delivered all that is
// not optional: then it may have an answer for the rest, too.
func (r *reflector) pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-r.required:
		r.required = nil
	case <-t.C:
	}
	return true
}

// denied reports that the server does not let us see a resource, or does not have it.
func denied(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

// complain logs an error: a warning, and no more than that while it stays the same.
func (r *reflector) complain(ctx context.Context, err error, retry time.Duration) {
	level := slog.LevelWarn
	if err.Error() == r.complaint {
		level = slog.LevelDebug
	}
	r.complaint = err.Error()
	r.log.Log(ctx, level, "the API server cannot be watched", "err", err, "retry", retry)
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// step goes on from the version that was reached until the watch ends.
func (r *reflector) step(ctx context.Context) error {
	if !r.known && r.canStream {
		err := r.watch(ctx, true)
		if r.known || !refused(err) {
			return err
		}
		r.log.Debug("the API server does not stream the first state; it is listed", "err", err)
		r.canStream = false
	}
	if !r.known {
		if err := r.fetch(ctx); err != nil {
			return err
		}
	}
	return r.watch(ctx, false)
}

// errSilent says that a stream of the first state stalled.
var errSilent = fmt.Errorf("no end of the first state within %v of silence", streamPause)

// refused reports that the server does not know the request for a stream, takes it
// for a plain watch, or cannot do it with its storage, for which it has no reason of
// its own. What a list would meet as well does not count.
func refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return errors.Is(err, errSilent)
	}
	return !apierrors.IsUnauthorized(err) && !apierrors.IsForbidden(err) && !apierrors.IsTooManyRequests(err) &&
		!apierrors.IsServiceUnavailable(err) && !apierrors.IsNotFound(err)
}

// from returns which state a list is to have. The first is whatever the server has at
// hand, which is in its memory and at most a moment old: the watch goes on from there.
// Later ones are not older than what was delivered, as another server may lag behind;
// and when no server has come so far, it is what the storage says
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list).
func (r *reflector) from() (version string, match metav1.ResourceVersionMatch) {
	switch {
	case r.rewound:
		return "", ""
	case r.version == "":
		return "0", ""
	}
	return r.version, notOlderThan
}

// fetch delivers everything from lists. A server that does not have the state in its
// memory answers in pages.
func (r *reflector) fetch(ctx context.Context) error {
	r.attempt++
	opts := metav1.ListOptions{LabelSelector: r.labels, FieldSelector: r.fields, Limit: pageSize}
	opts.ResourceVersion, opts.ResourceVersionMatch = r.from()
	for {
		page := r.list()
		err := r.client.Get().Resource(r.name).SpecificallyVersionedParams(&opts, metav1.ParameterCodec, optionsVersion).Do(ctx).Into(page)
		if err != nil {
			return r.unlisted(err)
		}
		list, err := meta.ListAccessor(page)
		if err != nil {
			return fmt.Errorf("list %s: %w", r.name, err)
		}
		err = meta.EachListItem(page, func(o runtime.Object) error { return r.put(o) })
		if err != nil {
			return fmt.Errorf("list %s: %w", r.name, err)
		}
		opts.ResourceVersion, opts.ResourceVersionMatch = "", "" // they are in the token
		if opts.Continue = list.GetContinue(); opts.Continue == "" {
			r.replace(list.GetResourceVersion())
			return nil
		}
	}
}

// unlisted returns what to do about a list that failed.
func (r *reflector) unlisted(err error) error {
	switch {
	case apierrors.IsResourceExpired(err): // between two pages, or before: from scratch
		r.rewound = true
		return errExpired
	case apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge):
		r.rewound = true
		return fmt.Errorf("list %s: %w: %w", r.name, errRewound, err)
	}
	return fmt.Errorf("list %s: %w", r.name, err)
}

// put delivers o and notes its name.
func (r *reflector) put(o runtime.Object) error {
	name, err := nameOf(o)
	if err != nil {
		return err
	}
	if r.names == nil {
		r.names = make(map[types.NamespacedName]int)
	}
	r.names[name] = r.attempt
	r.set(o)
	return nil
}

func nameOf(o runtime.Object) (types.NamespacedName, error) {
	m, err := meta.Accessor(o)
	if err != nil {
		return types.NamespacedName{}, err
	}
	return types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}, nil
}

// replace ends the delivery of a whole state: what is not in it was deleted.
func (r *reflector) replace(version string) {
	for name, attempt := range r.names {
		if attempt != r.attempt {
			delete(r.names, name)
			r.remove(name)
		}
	}
	r.version, r.known, r.rewound = version, true, false
	if r.complete != nil {
		r.complete()
	}
	r.delivered()
}

// watch delivers changes from the version on, or with initial the whole state and
// then changes. It returns nil when the server has ended it.
func (r *reflector) watch(ctx context.Context, initial bool) error {
	seconds := int64((maxWatch/2 + rand.N(maxWatch/2)).Seconds())
	opts := metav1.ListOptions{
		LabelSelector: r.labels, FieldSelector: r.fields, ResourceVersion: r.version,
		Watch: true, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
	}
	if initial {
		// Without a version it is what the storage has now.
		opts.ResourceVersion, opts.SendInitialEvents, opts.ResourceVersionMatch = "", new(true), notOlderThan
	}
	w, err := r.client.Get().Resource(r.name).SpecificallyVersionedParams(&opts, metav1.ParameterCodec, optionsVersion).Watch(ctx)
	if err != nil {
		return r.failed(err)
	}
	defer w.Stop()
	s := stream{reflector: r}
	var silence <-chan time.Time
	if initial {
		r.attempt++
		s.initial = true
		timer := time.NewTimer(streamPause)
		defer timer.Stop()
		silence, s.heard = timer.C, func() { timer.Reset(streamPause) }
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-silence:
			if s.initial {
				return errSilent
			}
		case event, open := <-w.ResultChan():
			if !open {
				return nil
			}
			if err := s.take(event); err != nil {
				return r.failed(err)
			}
		}
	}
}

func (r *reflector) failed(err error) error {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return errExpired
	}
	return fmt.Errorf("watch %s: %w", r.name, err)
}

// stream is one watch.
type stream struct {
	*reflector
	// initial says that the first state is not complete.
	initial bool
	heard   func()
}

func (s *stream) take(e watch.Event) error {
	if s.initial {
		s.heard()
	}
	if e.Type == watch.Error {
		return apierrors.FromObject(e.Object)
	}
	m, err := meta.Accessor(e.Object)
	if err != nil {
		return fmt.Errorf("event %s: %w", e.Type, err)
	}
	switch e.Type {
	case watch.Added, watch.Modified:
		if err := s.put(e.Object); err != nil {
			return err
		}
	case watch.Deleted:
		name := types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}
		delete(s.names, name)
		s.remove(name)
	case watch.Bookmark:
		if s.initial && m.GetAnnotations()[initialEnd] == "true" {
			s.initial = false
			s.replace(m.GetResourceVersion())
			return nil
		}
	}
	if !s.initial {
		s.version = m.GetResourceVersion()
	}
	return nil
}
