package podsource_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// server is the part of an API server that lists and watches pods.
type server struct {
	mu      sync.Mutex // guards the fields below
	version int
	pods    map[types.UID]*corev1.Pod
	// log has all changes, from the version after forgotten on.
	log       []change
	forgotten int
	changed   chan struct{}
	// fail is asked before each call; nil: all succeed.
	fail  func(verb string) error
	calls []string
	// cut ends the watches that are open.
	cut chan struct{}
}

// change is one change of a pod.
type change struct {
	version int
	event   watch.Event
}

func newServer() *server {
	return &server{pods: map[types.UID]*corev1.Pod{}, changed: make(chan struct{}), cut: make(chan struct{})}
}

// put creates or changes a pod.
func (s *server) put(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := watch.Modified
	if s.pods[pod.UID] == nil {
		kind = watch.Added
	}
	s.pods[pod.UID] = pod.DeepCopy()
	s.changeLocked(kind, s.pods[pod.UID])
}

// remove removes a pod.
func (s *server) remove(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.pods[pod.UID]
	delete(s.pods, pod.UID)
	s.changeLocked(watch.Deleted, old.DeepCopy())
}

func (s *server) changeLocked(kind watch.EventType, pod *corev1.Pod) {
	s.version++
	pod.ResourceVersion = strconv.Itoa(s.version)
	s.log = append(s.log, change{s.version, watch.Event{Type: kind, Object: pod.DeepCopy()}})
	close(s.changed)
	s.changed = make(chan struct{})
}

// say tells all watches something that is no change of a pod.
func (s *server) say(event watch.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.log = append(s.log, change{s.version, event})
	close(s.changed)
	s.changed = make(chan struct{})
}

// forget forgets all changes until now and ends all watches.
func (s *server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.forgotten, s.log = s.version, nil
	s.cutLocked()
}

// cutAll ends all watches.
func (s *server) cutAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cutLocked()
}

func (s *server) cutLocked() {
	close(s.cut)
	s.cut = make(chan struct{})
}

// failWith sets what is asked before each call from now on.
func (s *server) failWith(fail func(verb string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

// made returns the calls since it was last asked.
func (s *server) made() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

func (s *server) call(verb string, opts metav1.ListOptions) error {
	s.mu.Lock()
	fail := s.fail
	line := verb + " " + opts.FieldSelector
	if verb == "watch" {
		line += " from " + opts.ResourceVersion
	} else if opts.ResourceVersion != "" {
		line += " at " + opts.ResourceVersion
	}
	s.calls = append(s.calls, line)
	s.mu.Unlock()
	if fail == nil {
		return nil
	}
	return fail(verb)
}

// List implements podsource.Client.
func (s *server) List(_ context.Context, opts metav1.ListOptions) (*corev1.PodList, error) {
	if err := s.call("list", opts); err != nil {
		return nil, err
	}
	wanted, err := fields.ParseSelector(opts.FieldSelector)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}}
	for _, uid := range slices.Sorted(maps.Keys(s.pods)) {
		if pod := s.pods[uid]; wanted.Matches(fields.Set{"spec.nodeName": pod.Spec.NodeName}) {
			list.Items = append(list.Items, *pod.DeepCopy())
		}
	}
	return list, nil
}

// Watch implements podsource.Client.
func (s *server) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	if err := s.call("watch", opts); err != nil {
		return nil, err
	}
	version, err := strconv.Atoi(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if version < s.forgotten {
		return nil, apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", version, s.forgotten))
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(*opts.TimeoutSeconds)*time.Second)
	w := &stream{events: make(chan watch.Event), cancel: cancel}
	go s.tell(ctx, w, version, s.cut)
	return w, nil
}

// tell sends what changed after a version.
func (s *server) tell(ctx context.Context, w *stream, version int, cut chan struct{}) {
	defer close(w.events)
	for {
		s.mu.Lock()
		var news []change
		for _, c := range s.log {
			if c.version > version {
				news = append(news, c)
			}
		}
		changed := s.changed
		s.mu.Unlock()
		for _, c := range news {
			version = c.version
			select {
			case w.events <- c.event:
			case <-cut:
				return
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-changed:
		case <-cut:
			return
		case <-ctx.Done():
			return
		}
	}
}

// stream is an open watch.
type stream struct {
	events chan watch.Event
	cancel context.CancelFunc
}

func (w *stream) Stop()                          { w.cancel() }
func (w *stream) ResultChan() <-chan watch.Event { return w.events }

// newPod returns a pod of node-a, each a second younger than the one that was made
// before.
func newPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{NodeName: "node-a", Containers: []corev1.Container{{Name: "app"}}},
	}
}
