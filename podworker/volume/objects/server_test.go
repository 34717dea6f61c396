package objects_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodekit-go/nodekit/podworker/volume/objects"
)

// server is an API server with ConfigMaps, and with no Secrets but those named like a
// ConfigMap. It refuses to list anything but one name.
type server struct {
	t *testing.T
	// delay is how long a list takes.
	delay time.Duration

	mu      sync.Mutex // guards the fields below
	version int
	objects map[string]*corev1.ConfigMap
	watches map[*stream]bool
	lists   int
	watched int
	down    error
	noWatch error
	expired bool
}

func newServer(t *testing.T) *server {
	t.Helper()
	return &server{t: t, version: 100, objects: map[string]*corev1.ConfigMap{}, watches: map[*stream]bool{}}
}

// stream is one watch.
type stream struct {
	server *server
	name   string
	events chan watch.Event
	once   sync.Once
}

func (s *stream) ResultChan() <-chan watch.Event { return s.events }

// Stop may be called while the server sends.
func (s *stream) Stop() {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	delete(s.server.watches, s)
}

func (s *stream) end() { s.once.Do(func() { close(s.events) }) }

// configMaps and secrets are the clients of one namespace.
type configMaps struct {
	*server
	namespace string
}
type secrets struct{ configMaps }

func (s *server) configMaps(namespace string) objects.ConfigMaps {
	return configMaps{s, namespace}
}

func (s *server) secrets(namespace string) objects.Secrets {
	return secrets{configMaps{s, namespace}}
}

func (c configMaps) name(opts metav1.ListOptions) string {
	name, ok := strings.CutPrefix(opts.FieldSelector, "metadata.name=")
	if !ok || name == "" {
		c.t.Errorf("field selector %q, want a name: the Node authorizer permits nothing else", opts.FieldSelector)
	}
	return c.namespace + "/" + name
}

func (c configMaps) List(ctx context.Context, opts metav1.ListOptions) (*corev1.ConfigMapList, error) {
	c.mu.Lock()
	c.lists++
	c.mu.Unlock()
	select {
	case <-time.After(c.delay):
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if opts.ResourceVersion != "" {
		c.t.Errorf("list at version %q, want the newest", opts.ResourceVersion)
	}
	if c.down != nil || ctx.Err() != nil {
		return nil, errors.Join(c.down, ctx.Err())
	}
	list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(c.version)}}
	if o := c.objects[c.name(opts)]; o != nil {
		list.Items = append(list.Items, *o.DeepCopy())
	}
	return list, nil
}

func (c configMaps) Watch(_ context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched++
	if c.down != nil || c.noWatch != nil {
		return nil, errors.Join(c.down, c.noWatch)
	}
	if c.expired {
		c.expired = false
		return nil, apierrors.NewResourceExpired("too old")
	}
	if opts.ResourceVersion == "" || opts.TimeoutSeconds == nil || !opts.AllowWatchBookmarks {
		c.t.Errorf("watch with %+v, want a version, a time-out and bookmarks", opts)
	}
	w := &stream{server: c.server, name: c.name(opts), events: make(chan watch.Event, 100)}
	c.watches[w] = true
	since, err := strconv.Atoi(opts.ResourceVersion)
	if o := c.objects[w.name]; o != nil && err == nil {
		if at, _ := strconv.Atoi(o.ResourceVersion); at > since {
			w.events <- watch.Event{Type: watch.Modified, Object: o.DeepCopy()}
		}
	}
	return w, nil
}

func (s secrets) List(ctx context.Context, opts metav1.ListOptions) (*corev1.SecretList, error) {
	from, err := s.configMaps.List(ctx, opts)
	if err != nil {
		return nil, err
	}
	list := &corev1.SecretList{ListMeta: from.ListMeta}
	for i := range from.Items {
		list.Items = append(list.Items, *secretOf(&from.Items[i]))
	}
	return list, nil
}

func secretOf(c *corev1.ConfigMap) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: c.ObjectMeta, Data: map[string][]byte{}, Immutable: c.Immutable}
	for k, v := range c.Data {
		s.Data[k] = []byte(v)
	}
	return s
}

// set writes a value, by making the object or changing it.
func (s *server) set(name, value string) { s.put(name, value, false) }

func (s *server) put(name, value string, immutable bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	kind := watch.Modified
	o := s.objects[name]
	if o == nil {
		kind, o = watch.Added, &corev1.ConfigMap{}
		o.Namespace, o.Name, _ = strings.Cut(name, "/")
		o.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	}
	o = o.DeepCopy()
	o.ResourceVersion, o.Data = strconv.Itoa(s.version), map[string]string{"v": value}
	if immutable {
		o.Immutable = &immutable
	}
	s.objects[name] = o
	s.sendLocked(name, watch.Event{Type: kind, Object: o.DeepCopy()})
}

func (s *server) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	o := s.objects[name].DeepCopy()
	o.ResourceVersion = strconv.Itoa(s.version)
	delete(s.objects, name)
	s.sendLocked(name, watch.Event{Type: watch.Deleted, Object: o})
}

func (s *server) sendLocked(name string, event watch.Event) {
	for w := range s.watches {
		if w.name == name {
			w.events <- event
		}
	}
}

// send sends an event to every watch.
func (s *server) send(event watch.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		w.events <- event
	}
}

// endWatches ends all watches, as a server does after their time.
func (s *server) endWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		w.end()
	}
	clear(s.watches)
}

// silence changes objects without telling, as while a watch is broken.
func (s *server) silence(name, value string) {
	s.mu.Lock()
	watches := maps.Clone(s.watches)
	clear(s.watches)
	s.mu.Unlock()
	s.set(name, value)
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.watches, watches)
}

// fail has every call fail, with nil none.
func (s *server) fail(err error) {
	s.mu.Lock()
	s.down = err
	s.mu.Unlock()
	if err != nil {
		s.endWatches()
	}
}

// calls returns how many lists and watches were asked for.
func (s *server) calls() (lists, watches int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists, s.watched
}

// open returns the names that are watched.
func (s *server) open() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for w := range s.watches {
		names = append(names, w.name)
	}
	slices.Sort(names)
	return names
}
