package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/nodekit-go/nodekit/allocatable/eviction"
	"github.com/nodekit-go/nodekit/examples/kubelet/node"
)

// apiServer is the part of an API server that a node without volumes needs: pods and
// their statuses. There are no Services, and of events one is remembered.
type apiServer struct {
	mu sync.Mutex // guards the fields below
	// down says that nothing answers, node is the UID of the Node; empty: there is none.
	down    bool
	node    types.UID
	version int
	pods    map[types.UID]*corev1.Pod
	// evicted are the annotations of the last event of an eviction.
	evicted map[string]string
	// changes are all changes, and changed is closed at the next one, or when the server
	// goes down.
	changes []watch.Event
	changed chan struct{}
}

func newAPIServer() *apiServer {
	return &apiServer{pods: map[types.UID]*corev1.Pod{}, changed: make(chan struct{})}
}

// inCluster has a node belong to the cluster. It has no plugins: to watch their directory
// would stop the test's time.
func (s *apiServer) inCluster(c *node.Config) {
	c.Client = apiClient{s: s}
	c.Plugins = func(ctx context.Context, _ node.Drivers) error {
		<-ctx.Done()
		return nil
	}
}

// apiPod returns a pod as users create them.
func apiPod(name string) *corev1.Pod {
	pod := newPod(name)
	pod.Annotations = nil
	pod.Spec.NodeName = "node-a"
	pod.Spec.EnableServiceLinks = new(false)
	return pod
}

// bind creates pods that are bound to the node, or changes them.
func (s *apiServer) bind(pods ...*corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pod := range pods {
		s.putLocked(pod.DeepCopy())
	}
}

func (s *apiServer) putLocked(pod *corev1.Pod) {
	kind := watch.Modified
	if s.pods[pod.UID] == nil {
		kind = watch.Added
	}
	s.version++
	pod.ResourceVersion = strconv.Itoa(s.version)
	s.pods[pod.UID] = pod
	s.tellLocked(watch.Event{Type: kind, Object: pod.DeepCopy()})
}

// tellLate sends a version of a pod to those who watch that is older than the server's.
func (s *apiServer) tellLate(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.tellLocked(watch.Event{Type: watch.Modified, Object: pod.DeepCopy()})
}

// vanish removes a pod at once.
func (s *apiServer) vanish(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pod := s.pods[uid]; pod != nil {
		delete(s.pods, uid)
		s.version++
		gone := pod.DeepCopy()
		gone.ResourceVersion = strconv.Itoa(s.version)
		s.tellLocked(watch.Event{Type: watch.Deleted, Object: gone})
	}
}

func (s *apiServer) tellLocked(e watch.Event) {
	s.changes = append(s.changes, e)
	close(s.changed)
	s.changed = make(chan struct{})
}

// setDown makes the server answer nothing, or answer again.
func (s *apiServer) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
	close(s.changed)
	s.changed = make(chan struct{})
}

// phase returns the phase that the server knows, empty if it has no such pod.
func (s *apiServer) phase(uid types.UID) corev1.PodPhase {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pod := s.pods[uid]; pod != nil {
		return pod.Status.Phase
	}
	return ""
}

// lastEvicted returns the annotations of the last event Evicted.
func (s *apiServer) lastEvicted() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.evicted
}

var errRefused = errors.New("dial tcp 10.0.0.1:6443: connect: connection refused")

// upLocked is the error of a server that is down.
func (s *apiServer) upLocked() error {
	if s.down {
		return errRefused
	}
	return nil
}

// apiClient is a client of an apiServer. What it does not have is nil, and shows itself.
type apiClient struct {
	kubernetes.Interface
	s *apiServer
}

func (c apiClient) CoreV1() corev1client.CoreV1Interface { return coreClient{s: c.s} }

type coreClient struct {
	corev1client.CoreV1Interface
	s *apiServer
}

func (c coreClient) Pods(string) corev1client.PodInterface         { return podClient{s: c.s} }
func (c coreClient) Services(string) corev1client.ServiceInterface { return serviceClient{s: c.s} }
func (c coreClient) Events(string) corev1client.EventInterface     { return eventClient{s: c.s} }

type eventClient struct {
	corev1client.EventInterface
	s *apiServer
}

func (c eventClient) Create(_ context.Context, e *corev1.Event, _ metav1.CreateOptions) (*corev1.Event, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if e.Reason == eviction.Reason && len(e.Annotations) > 0 {
		c.s.evicted = e.Annotations
	}
	return e, nil
}

func (eventClient) Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*corev1.Event, error) {
	return &corev1.Event{}, nil
}

type serviceClient struct {
	corev1client.ServiceInterface
	s *apiServer
}

func (c serviceClient) List(context.Context, metav1.ListOptions) (*corev1.ServiceList, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return &corev1.ServiceList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, c.s.upLocked()
}

func (c serviceClient) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	if opts.SendInitialEvents != nil {
		return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil) // then it lists
	}
	return c.s.watch(ctx, opts, func(watch.Event) bool { return false })
}

type podClient struct {
	corev1client.PodInterface
	s *apiServer
}

func (c podClient) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(c.s.version)}}
	for _, pod := range c.s.pods {
		list.Items = append(list.Items, *pod.DeepCopy())
	}
	return list, c.s.upLocked()
}

func (c podClient) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return c.s.watch(ctx, opts, func(watch.Event) bool { return true })
}

func (c podClient) named(name string) (*corev1.Pod, error) {
	if err := c.s.upLocked(); err != nil {
		return nil, err
	}
	for _, pod := range c.s.pods {
		if pod.Name == name {
			return pod, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name)
}

func (c podClient) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.Pod, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	pod, err := c.named(name)
	return pod.DeepCopy(), err
}

func (c podClient) Patch(_ context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (*corev1.Pod, error) { //nolint:revive // of client-go
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	pod, err := c.named(name)
	if err != nil {
		return nil, err
	}
	old, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	merged, err := strategicpatch.StrategicMergePatch(old, data, &corev1.Pod{})
	if err != nil {
		return nil, err
	}
	next := &corev1.Pod{}
	if err := json.Unmarshal(merged, next); err != nil {
		return nil, err
	}
	if next.UID != pod.UID {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, name, errors.New("the UID in the precondition"))
	}
	c.s.putLocked(next)
	return next.DeepCopy(), nil
}

func (c podClient) Delete(_ context.Context, name string, _ metav1.DeleteOptions) error {
	c.s.mu.Lock()
	pod, err := c.named(name)
	c.s.mu.Unlock()
	if err != nil {
		return err
	}
	c.s.vanish(pod.UID)
	return nil
}

// watch tells of the changes after a version.
func (s *apiServer) watch(ctx context.Context, opts metav1.ListOptions, wanted func(watch.Event) bool) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.upLocked(); err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, time.Duration(*opts.TimeoutSeconds)*time.Second)
	w := &apiWatch{events: make(chan watch.Event), stop: stop}
	version, _ := strconv.Atoi(opts.ResourceVersion)
	go s.tell(ctx, w, version, wanted)
	return w, nil
}

// tell sends the changes after a version until the server goes down.
func (s *apiServer) tell(ctx context.Context, w *apiWatch, version int, wanted func(watch.Event) bool) {
	defer close(w.events)
	for {
		s.mu.Lock()
		news, changed, down := slices.Clone(s.changes[min(version, len(s.changes)):]), s.changed, s.down
		s.mu.Unlock()
		if down {
			return
		}
		for _, e := range news {
			version++
			if !wanted(e) {
				continue
			}
			select {
			case w.events <- e:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// apiWatch is an open watch.
type apiWatch struct {
	events chan watch.Event
	stop   context.CancelFunc
}

func (w *apiWatch) Stop()                          { w.stop() }
func (w *apiWatch) ResultChan() <-chan watch.Event { return w.events }
