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
)

// Config is the API server of a [Store], and who is told of changes. ConfigMaps and
// Secrets are required.
type Config struct {
	// ConfigMaps and Secrets return the client for a namespace.
	ConfigMaps func(namespace string) ConfigMaps
	Secrets    func(namespace string) Secrets
	// Changed is called when an object has changed, appeared or gone, with the pods that
	// refer to it. It is called by many goroutines and must not block; nil: nobody is
	// told.
	Changed func(pods []types.UID)
	// Log gets why objects cannot be read; nil: nothing is logged.
	Log *slog.Logger
}

// Store has the objects of pods. Make one with [New].
type Store struct {
	cfg     Config
	clients map[Kind]client
	wake    chan struct{}

	// mu guards the fields below and all that entries have.
	mu sync.Mutex
	// entries are the objects that pods refer to, pods the references of each.
	entries map[key]*entry
	pods    map[types.UID]map[key]bool
}

// key names an object.
type key struct {
	kind            Kind
	namespace, name string
}

func (k key) String() string { return fmt.Sprintf("%s %s/%s", k.kind, k.namespace, k.name) }

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
		clients: map[Kind]client{ConfigMap: configMapClient(cfg.ConfigMaps), Secret: secretClient(cfg.Secrets)},
		wake:    make(chan struct{}, 1),
		entries: map[key]*entry{},
		pods:    map[types.UID]map[key]bool{},
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
		case <-s.wake: // there are new entries
		}
		for _, e := range s.idle(ctx) {
			followers.Go(func() { s.follow(e) })
		}
	}
}

// idle returns the entries that nobody follows yet, which from now on the caller does.
func (s *Store) idle(ctx context.Context) []*entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*entry
	for _, e := range s.entries {
		if e.stop == nil {
			e.life, e.stop = context.WithCancel(ctx)
			out = append(out, e)
		}
	}
	return out
}

// Use begins to follow the objects that a pod refers to. Those the pod has not been
// known to refer to are read anew, so that what [Store.Wait] waits for is not older
// than this call. Called again it takes in what the pod refers to now.
func (s *Store) Use(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, now := s.pods[pod.UID], map[key]bool{}
	for _, r := range References(pod) {
		k := key{kind: r.Kind, namespace: pod.Namespace, name: r.Name}
		now[k] = true
		if before[k] {
			continue
		}
		e := s.entries[k]
		if e == nil {
			e = newEntry(k)
			s.entries[k] = e
		}
		e.demand(pod.UID)
	}
	for k := range before {
		if !now[k] {
			s.leaveLocked(pod.UID, k)
		}
	}
	s.pods[pod.UID] = now
	signal(s.wake)
}

// Release says that a pod refers to nothing any more. Objects that no pod refers to
// are forgotten.
func (s *Store) Release(pod types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.pods[pod] {
		s.leaveLocked(pod, k)
	}
	delete(s.pods, pod)
}

func (s *Store) leaveLocked(pod types.UID, k key) {
	e := s.entries[k]
	delete(e.users, pod)
	if len(e.users) > 0 {
		return
	}
	delete(s.entries, k)
	if e.stop != nil {
		e.stop()
	}
	e.broadcast() // whoever waits is told that there is nothing to wait for
}

// Wait waits until every object that a pod refers to is known as it was when Use named
// it, or later. An object that cannot be read now and was known before is as it was.
// When ctx ends first, the error says what is missing, and why.
func (s *Store) Wait(ctx context.Context, pod types.UID) error {
	for {
		missing, changed, err := s.missing(pod)
		if missing == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			if err == nil {
				err = ctx.Err()
			}
			return fmt.Errorf("wait for %s: %w", missing.key, err)
		case <-changed: // of the first that is missing
		}
	}
}

// missing returns an object that a pod has to wait for, what is closed when that has
// changed, and why it could not be read so far; nil if there is none.
func (s *Store) missing(pod types.UID) (e *entry, changed <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.pods[pod] {
		if e := s.entries[k]; !e.serves(pod) {
			return e, e.changed, e.err
		}
	}
	return nil, nil, nil
}

// ConfigMap returns an object that a pod refers to. One that does not exist is an
// error for which IsNotFound of k8s.io/apimachinery's package api/errors is true.
func (s *Store) ConfigMap(namespace, name string) (*corev1.ConfigMap, error) {
	object, err := s.get(key{kind: ConfigMap, namespace: namespace, name: name})
	if err != nil {
		return nil, err
	}
	return object.(*corev1.ConfigMap), nil //nolint:forcetypeassert // an entry has objects of its kind only
}

// Secret is [Store.ConfigMap] for Secrets.
func (s *Store) Secret(namespace, name string) (*corev1.Secret, error) {
	object, err := s.get(key{kind: Secret, namespace: namespace, name: name})
	if err != nil {
		return nil, err
	}
	return object.(*corev1.Secret), nil //nolint:forcetypeassert // an entry has objects of its kind only
}

func (s *Store) get(k key) (metav1.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[k]
	switch {
	case e == nil:
		return nil, fmt.Errorf("object %q/%q not registered: no pod in hand refers to this %s", k.namespace, k.name, k.kind)
	case !e.known && e.err != nil:
		return nil, fmt.Errorf("read %s: %w", k, e.err)
	case !e.known:
		return nil, fmt.Errorf("%s has not been read yet", k)
	case e.object == nil:
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: k.kind.resource()}, k.name)
	}
	return e.object, nil
}

// signal wakes whoever waits, now or later.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
