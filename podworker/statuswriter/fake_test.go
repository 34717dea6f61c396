package statuswriter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/nodekit-go/nodekit/podworker/statuswriter"
)

// server is the part of an API server that keeps the pods of one namespace. It merges
// patches as API servers do and refuses what they refuse.
type server struct {
	mu      sync.Mutex
	version int
	pods    map[string]*corev1.Pod
	// fail is asked before each call.
	fail func(verb, name string) error
	// hooks are called before a call of their verb has an effect, with no lock held.
	hooks map[string]func()
	// answers are called after a call of their verb had its effect, with no lock held, and may change
	// what is answered.
	answers map[string]func(error) error
	// delay is how long a call takes.
	delay time.Duration
	calls []string
	// seen has the phases that each pod has had.
	seen map[types.UID][]corev1.PodPhase
}

func newServer(pods ...*corev1.Pod) *server {
	s := &server{pods: map[string]*corev1.Pod{}, seen: map[types.UID][]corev1.PodPhase{}, hooks: map[string]func(){}, answers: map[string]func(error) error{}}
	for _, pod := range pods {
		s.create(pod)
	}
	return s
}

var (
	errDown  = errors.New("dial tcp 192.0.2.1:443: connect: connection refused")
	resource = schema.GroupResource{Resource: "pods"}
)

func (s *server) client(string) statuswriter.Pods { return s }

// create stores a pod, and returns it as the server has it.
func (s *server) create(pod *corev1.Pod) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.storeLocked(pod.DeepCopy())
}

func (s *server) storeLocked(pod *corev1.Pod) *corev1.Pod {
	s.version++
	pod.ResourceVersion = strconv.Itoa(s.version)
	s.pods[pod.Name] = pod
	s.seen[pod.UID] = append(s.seen[pod.UID], pod.Status.Phase)
	return pod.DeepCopy()
}

// get returns a pod, nil if there is none.
func (s *server) get(name string) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[name].DeepCopy()
}

// delete marks a pod as kubectl delete does, and returns it; nil if there is none.
func (s *server) delete(name string) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod := s.pods[name].DeepCopy()
	if pod == nil {
		return nil
	}
	now := metav1.Now()
	pod.DeletionTimestamp = &now
	return s.storeLocked(pod)
}

// vanish removes a pod at once.
func (s *server) vanish(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, name)
}

func (s *server) made() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.calls...)
}

// before has a function called before each call of a verb has an effect.
func (s *server) before(verb string, hook func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks[verb] = hook
}

// after has a function called after each call of a verb had its effect; it may change the
// answer.
func (s *server) after(verb string, answer func(error) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[verb] = answer
}

// failWith sets what is asked before each call from now on; nil: all succeed.
func (s *server) failWith(fail func(verb, name string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

// call lets a call take its time, and then have an effect on the pod if there is one.
func (s *server) call(ctx context.Context, verb, name string, effect func(pod *corev1.Pod) error) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(s.delay):
	}
	s.mu.Lock()
	hook := s.hooks[verb]
	s.mu.Unlock()
	if hook != nil {
		hook()
	}
	err := s.effect(verb, name, effect)
	s.mu.Lock()
	answer := s.answers[verb]
	s.mu.Unlock()
	if answer != nil {
		return answer(err)
	}
	return err
}

// effect counts a call, and lets it have an effect on the pod if there is one.
func (s *server) effect(verb, name string, effect func(pod *corev1.Pod) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, verb+" "+name)
	if s.fail != nil {
		if err := s.fail(verb, name); err != nil {
			return err
		}
	}
	if s.pods[name] == nil {
		return apierrors.NewNotFound(resource, name)
	}
	return effect(s.pods[name])
}

func (s *server) Get(ctx context.Context, name string, _ metav1.GetOptions) (got *corev1.Pod, err error) {
	err = s.call(ctx, "get", name, func(pod *corev1.Pod) error {
		got = pod.DeepCopy()
		return nil
	})
	return got, err
}

//nolint:revive // the arguments are those of client-go
func (s *server) Patch(ctx context.Context, name string, pt types.PatchType, data []byte, _ metav1.PatchOptions, subresources ...string) (got *corev1.Pod, err error) {
	if pt != types.StrategicMergePatchType || len(subresources) != 1 || subresources[0] != "status" {
		return nil, fmt.Errorf("patch of type %s to %v", pt, subresources)
	}
	err = s.call(ctx, "patch", name, func(pod *corev1.Pod) error {
		next, err := patched(pod, data)
		if err == nil {
			got = s.storeLocked(next)
		}
		return err
	})
	return got, err
}

// patched returns a pod as a patch makes it.
func patched(pod *corev1.Pod, data []byte) (*corev1.Pod, error) {
	old, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	merged, err := strategicpatch.StrategicMergePatch(old, data, corev1.Pod{})
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	next := &corev1.Pod{}
	if err := json.Unmarshal(merged, next); err != nil {
		return nil, err
	}
	if next.UID != pod.UID {
		return nil, apierrors.NewConflict(resource, pod.Name, errors.New("the UID in the precondition does not match"))
	}
	return next, nil
}

func (s *server) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	return s.call(ctx, "delete", name, func(pod *corev1.Pod) error {
		switch {
		case opts.Preconditions == nil || opts.Preconditions.UID == nil || opts.GracePeriodSeconds == nil || *opts.GracePeriodSeconds != 0:
			return fmt.Errorf("delete of %s without precondition or with a grace period", name)
		case *opts.Preconditions.UID != pod.UID:
			return apierrors.NewConflict(resource, name, errors.New("the UID in the precondition does not match"))
		}
		delete(s.pods, name)
		return nil
	})
}
