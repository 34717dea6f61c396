package objects

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

// Config is the API server of a [Store], and who is told of changes. ConfigMaps and
// Secrets are required.
type Config struct {
	// ConfigMaps and Secrets return the client for a namespace.
	ConfigMaps func(namespace string) ConfigMaps
	Secrets    func(namespace string) Secrets
	// Changed is called when an object has changed, appeared or gone, with the pods that
	// refer to it. It is called by many goroutines and must not block; nil: nobody is
	// told. It is where the method Changed of a volume.Manager is called.
	Changed func(object volume.Object, pods []types.UID)
	// Log gets why objects cannot be read; nil: nothing is logged.
	Log *slog.Logger
}

// Store has the objects of pods. Make one with [New].
type Store struct {
	cfg     Config
	clients map[volume.Kind]client
	wake    chan struct{}

	// mu guards the fields below and all that changes of entries.
	mu sync.Mutex
	// entries are the objects that pods refer to, pods the references of each.
	entries map[volume.Object]*entry
	pods    map[types.UID]map[volume.Object]bool
}

var _ volume.Objects = (*Store)(nil)

// New returns a Store that does nothing yet.
func New(cfg Config) (*Store, error) {
	if cfg.ConfigMaps == nil || cfg.Secrets == nil {
		return nil, errors.New("objects: Config.ConfigMaps and Config.Secrets have to be set, to the clients of an API server")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Store{
		cfg:     cfg,
		clients: map[volume.Kind]client{volume.ConfigMaps: configMapClient(cfg.ConfigMaps), volume.Secrets: secretClient(cfg.Secrets)},
		wake:    make(chan struct{}, 1),
		entries: map[volume.Object]*entry{},
		pods:    map[types.UID]map[volume.Object]bool{},
	}, nil
}

// Run follows the objects until ctx ends; then it returns nil. It is called once.
func (s *Store) Run(ctx context.Context) error {
	var followers sync.WaitGroup
	defer followers.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake: // there may be new entries
		}
		for _, f := range s.unfollowed(ctx) {
			followers.Go(f.run)
		}
	}
}

// unfollowed returns who is to follow the entries that nobody follows yet.
func (s *Store) unfollowed(ctx context.Context) []*follower {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*follower
	for _, e := range s.entries {
		if e.stop != nil {
			continue
		}
		f := &follower{store: s, entry: e}
		f.life, e.stop = context.WithCancel(ctx)
		out = append(out, f)
	}
	return out
}

// Use begins to follow the objects that a pod refers to. Those that it was not known to
// refer to are read anew, so that what it gets is not older than this call. Called again
// it takes in what the pod refers to now.
func (s *Store) Use(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, now := s.pods[pod.UID], map[volume.Object]bool{}
	for _, o := range References(pod) {
		now[o] = true
		if before[o] {
			continue
		}
		e := s.entries[o]
		if e == nil {
			e = newEntry(o)
			s.entries[o] = e
		}
		e.demand(pod.UID)
	}
	for o := range before {
		if !now[o] {
			s.leaveLocked(pod.UID, o)
		}
	}
	s.pods[pod.UID] = now
	signal(s.wake)
}

// Release says that a pod refers to nothing any more. Objects that no pod refers to are
// forgotten.
func (s *Store) Release(pod types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for o := range s.pods[pod] {
		s.leaveLocked(pod, o)
	}
	delete(s.pods, pod)
}

func (s *Store) leaveLocked(pod types.UID, o volume.Object) {
	e := s.entries[o]
	delete(e.users, pod)
	e.broadcast() // whoever waits for the pod is told that there is nothing to wait for
	if len(e.users) > 0 {
		return
	}
	delete(s.entries, o)
	if e.stop != nil {
		e.stop()
	}
}

// Wait waits until every object that a pod refers to is known as it was when Use named
// it, or later. One that cannot be read now and was known before is as it was. When ctx
// ends first, the error says what is missing, and why.
func (s *Store) Wait(ctx context.Context, pod types.UID) error {
	for {
		e, changed, err := s.missing(pod)
		if e == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			if err == nil {
				err = ctx.Err()
			}
			return fmt.Errorf("wait for %s: %w", describe(e.name), err)
		case <-changed: // the entry has; there may be others to wait for
		}
	}
}

// missing returns an object that a pod has to wait for, nil if there is none, what is
// closed when that has changed, and why it could not be read so far.
func (s *Store) missing(pod types.UID) (e *entry, changed <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for o := range s.pods[pod] {
		if e := s.entries[o]; !e.known || !e.triedFor(pod) {
			return e, e.changed, e.err
		}
	}
	return nil, nil, nil
}

// ConfigMap returns an object that a pod refers to. It answers from memory, except that
// the first time it waits for the read that Use asked for. One that does not exist is
// an error for which IsNotFound of k8s.io/apimachinery's package api/errors is true.
func (s *Store) ConfigMap(ctx context.Context, pod *corev1.Pod, name string) (*corev1.ConfigMap, error) {
	object, err := s.get(ctx, pod.UID, volume.Object{Kind: volume.ConfigMaps, Namespace: pod.Namespace, Name: name})
	if err != nil {
		return nil, err
	}
	return object.(*corev1.ConfigMap), nil //nolint:forcetypeassert // an entry has objects of its kind only
}

// Secret is [Store.ConfigMap] for Secrets.
func (s *Store) Secret(ctx context.Context, pod *corev1.Pod, name string) (*corev1.Secret, error) {
	object, err := s.get(ctx, pod.UID, volume.Object{Kind: volume.Secrets, Namespace: pod.Namespace, Name: name})
	if err != nil {
		return nil, err
	}
	return object.(*corev1.Secret), nil //nolint:forcetypeassert // an entry has objects of its kind only
}

func (s *Store) get(ctx context.Context, pod types.UID, o volume.Object) (metav1.Object, error) {
	for {
		object, changed, err := s.look(pod, o)
		if changed == nil {
			return object, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for %s: %w", describe(o), ctx.Err())
		case <-changed: // a read has ended, or the pod refers to it no more
		}
	}
}

// look returns an object or why there is none; before the read that the pod asked for
// has ended, what is closed when that may have.
func (s *Store) look(pod types.UID, o volume.Object) (object metav1.Object, changed <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[o]
	switch {
	case !s.pods[pod][o]:
		return nil, nil, fmt.Errorf("object %q/%q not registered: the pod is not known to refer to this %s", o.Namespace, o.Name, o.Kind)
	case !e.triedFor(pod):
		return nil, e.changed, nil
	case !e.known:
		return nil, nil, fmt.Errorf("read %s: %w", describe(o), e.err)
	case e.object == nil:
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: o.Kind.String() + "s"}, o.Name)
	}
	return e.object, nil, nil
}

func describe(o volume.Object) string { return o.Kind.String() + " " + o.Namespace + "/" + o.Name }

// signal wakes whoever waits, now or later.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
