package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/staticpods"
	"github.com/nodekit-go/nodekit/staticpods/mirror"
)

const nodeName = "node-a"

// server is an API server as far as the pods of one node are concerned. It lets a node do
// what NodeRestriction lets it.
type server struct {
	mu      sync.Mutex
	version int
	born    int
	pods    map[types.NamespacedName]*corev1.Pod
	// node is the UID of the Node; empty: there is none.
	node types.UID
	// fail is asked before each call.
	fail func(verb string, name types.NamespacedName) error
	// calls are those that came through, asked the times that the Node was read.
	calls []string
	asked int
	// watch gets the set after each change.
	watch chan []*corev1.Pod
}

func newServer() *server {
	return &server{pods: map[types.NamespacedName]*corev1.Pod{}, node: "n1", watch: make(chan []*corev1.Pod, 1000)}
}

var errDown = errors.New("dial tcp 192.0.2.1:443: connect: connection refused")

// refusal is what an admission plugin says.
func refusal(name types.NamespacedName) error {
	return apierrors.NewForbidden(podResource(), name.Name, errors.New("violates a policy"))
}

func podResource() schema.GroupResource { return schema.GroupResource{Resource: "pods"} }

// Node is mirror.Config.Node.
func (s *server) Node(context.Context) (types.UID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.node == "" {
		return "", apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, nodeName)
	}
	return s.node, nil
}

// change does something on the server and tells the watch.
func (s *server) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	s.publishLocked()
}

func (s *server) publishLocked() {
	var all []*corev1.Pod
	for _, pod := range s.pods {
		all = append(all, pod.DeepCopy())
	}
	s.watch <- all
}

// setNode makes another Node, or none.
func (s *server) setNode(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.node = uid
}

func (s *server) failWith(fail func(verb string, name types.NamespacedName) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

// userDeletes deletes a pod as kubectl does. A pod on a node waits for the node if there
// is a grace period.
func (s *server) userDeletes(name types.NamespacedName, grace int64) {
	s.change(func() {
		pod := s.pods[name].DeepCopy()
		if pod == nil {
			return
		}
		if grace == 0 {
			delete(s.pods, name)
			return
		}
		now := metav1.Now()
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, &grace
		s.storeLocked(pod)
	})
}

func (s *server) storeLocked(pod *corev1.Pod) *corev1.Pod {
	s.version++
	pod.ResourceVersion = strconv.Itoa(s.version)
	s.pods[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = pod
	return pod.DeepCopy()
}

// put stores a pod that somebody else made.
func (s *server) put(pod *corev1.Pod) {
	s.change(func() { s.storeLocked(pod.DeepCopy()) })
}

func (s *server) get(name types.NamespacedName) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[name].DeepCopy()
}

func (s *server) made() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// forget empties the list of calls.
func (s *server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls, s.asked = nil, 0
}

// client is the pods of one namespace for the node.
type client struct {
	*server
	namespace string
}

func (s *server) client(namespace string) mirror.Pods { return client{s, namespace} }

// call notes a call and says whether it fails. A call that does not get through is not
// noted.
func (c client) call(verb string, name types.NamespacedName, detail string) error {
	if c.fail != nil {
		if err := c.fail(verb, name); err != nil {
			return err
		}
	}
	c.calls = append(c.calls, verb+" "+name.String()+detail)
	return nil
}

func (c client) name(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: c.namespace, Name: name}
}

func (c client) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.Pod, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.call("get", c.name(name), ""); err != nil {
		return nil, err
	}
	pod := c.pods[c.name(name)]
	if pod == nil || pod.Spec.NodeName != nodeName { // the Node authorizer makes no difference
		return nil, apierrors.NewForbidden(podResource(), name, errors.New("no relationship found between node 'node-a' and this object"))
	}
	return pod.DeepCopy(), nil
}

func (c client) Create(_ context.Context, pod *corev1.Pod, _ metav1.CreateOptions) (*corev1.Pod, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.call("create", c.name(pod.Name), ""); err != nil {
		return nil, err
	}
	if err := c.admit(pod); err != nil {
		return nil, apierrors.NewForbidden(podResource(), pod.Name, err)
	}
	if c.pods[c.name(pod.Name)] != nil {
		return &corev1.Pod{}, apierrors.NewAlreadyExists(podResource(), pod.Name)
	}
	pod = pod.DeepCopy()
	c.born++
	pod.UID, pod.Status.Phase = types.UID("m"+strconv.Itoa(c.born)), corev1.PodPending
	made := c.storeLocked(pod)
	c.publishLocked()
	return made, nil
}

// admit is what NodeRestriction asks of a new pod
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction).
func (c client) admit(pod *corev1.Pod) error {
	owners := pod.OwnerReferences
	switch {
	case pod.Annotations[corev1.MirrorPodAnnotationKey] == "":
		return errors.New("nodes can only create mirror pods")
	case pod.Spec.NodeName != nodeName, pod.Namespace != c.namespace:
		return errors.New("nodes can only create pods that are bound to themselves")
	case len(owners) != 1 || owners[0].APIVersion != "v1" || owners[0].Kind != "Node" || owners[0].Name != nodeName,
		owners[0].Controller == nil || !*owners[0].Controller, owners[0].BlockOwnerDeletion != nil:
		return errors.New("nodes can only create pods that they own")
	case owners[0].UID != c.node:
		return fmt.Errorf("node UID mismatch: expected %s got %s", owners[0].UID, c.node)
	case pod.UID != "" || pod.ResourceVersion != "" || pod.Status.Phase != "":
		return errors.New("a new object has no identity")
	}
	return nil
}

func (c client) Delete(_ context.Context, name string, opts metav1.DeleteOptions) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	detail := ""
	if p := opts.Preconditions; p != nil && p.UID != nil {
		detail = " " + string(*p.UID)
	}
	if g := opts.GracePeriodSeconds; g == nil || *g != 0 {
		detail += " gracefully"
	}
	if err := c.call("delete", c.name(name), detail); err != nil {
		return err
	}
	pod := c.pods[c.name(name)]
	switch {
	case pod == nil:
		return apierrors.NewNotFound(podResource(), name)
	case opts.Preconditions != nil && *opts.Preconditions.UID != pod.UID:
		return apierrors.NewConflict(podResource(), name, fmt.Errorf("the UID in the precondition (%s) does not match %s", *opts.Preconditions.UID, pod.UID))
	}
	delete(c.pods, c.name(name))
	c.publishLocked()
	return nil
}

// bench is a Keeper at work, in the bubble of a test.
type bench struct {
	*server
	t      *testing.T
	keeper *mirror.Keeper
	// ending are names whose pods are being stopped.
	ending struct {
		sync.Mutex
		names map[types.NamespacedName]bool
	}
	stop func()
}

// newBench starts a Keeper whose watch is late by lag.
func newBench(t *testing.T, s *server, lag time.Duration) *bench {
	t.Helper()
	b := &bench{server: s, t: t}
	b.ending.names = map[types.NamespacedName]bool{}
	var err error
	b.keeper, err = mirror.New(mirror.Config{
		Name: nodeName, Pods: s.client, Node: s.Node,
		Ending: func(namespace, name string) bool {
			b.ending.Lock()
			defer b.ending.Unlock()
			return b.ending.names[types.NamespacedName{Namespace: namespace, Name: name}]
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	watched := make(chan struct{})
	go func() { done <- b.keeper.Run(ctx) }()
	go b.follow(ctx, lag, watched)
	b.stop = sync.OnceFunc(func() {
		cancel()
		<-watched
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(b.stop)
	return b
}

// follow is the watch: it begins with what there is.
func (b *bench) follow(ctx context.Context, lag time.Duration, done chan<- struct{}) {
	defer close(done)
	b.change(func() {
		for len(b.watch) > 0 {
			<-b.watch
		}
	})
	for {
		select {
		case <-ctx.Done():
			return
		case set := <-b.watch:
			if lag > 0 {
				time.Sleep(lag) //nolint:forbidigo // the clock of a synctest bubble
			}
			b.keeper.Have(set)
		}
	}
}

func (b *bench) setEnding(name types.NamespacedName, ending bool) {
	b.ending.Lock()
	defer b.ending.Unlock()
	b.ending.names[name] = ending
}

// want tells the Keeper of all static pods.
func (b *bench) want(pods ...*corev1.Pod) { b.keeper.Want(mirror.Set{Pods: pods}) }

// static returns a static pod as package staticpods makes it from version gen of a
// manifest.
func static(name, gen string) *corev1.Pod {
	hash := name + "-" + gen
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: name + "-" + nodeName, UID: types.UID(hash),
			Annotations: map[string]string{staticpods.AnnotationHash: hash, staticpods.AnnotationSource: "file"},
		},
		Spec: corev1.PodSpec{
			NodeName:   nodeName,
			Containers: []corev1.Container{{Name: "app", Image: "img.example/shell:" + gen}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

// meter is the name of most pods in these tests.
func meter() types.NamespacedName {
	return types.NamespacedName{Namespace: "kube-system", Name: "meter-" + nodeName}
}
