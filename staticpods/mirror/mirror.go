package mirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Pods is what a Keeper needs of the API server for the pods of one namespace.
// client-go's typed client is one. Errors are told apart as
// k8s.io/apimachinery/pkg/api/errors does.
type Pods interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.Pod, error)
	Create(ctx context.Context, pod *corev1.Pod, opts metav1.CreateOptions) (*corev1.Pod, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// DefaultTimeout bounds one call to the API server.
const DefaultTimeout = 30 * time.Second

// Config configures a Keeper. Name, Pods and Node are required.
type Config struct {
	// Name is the name of the node.
	Name string
	// Pods returns the client for the pods of a namespace.
	Pods func(namespace string) Pods
	// Node returns the UID of the Node, which owns the mirrors, as the API server has it
	// at this moment. It is asked before anything is made or removed for the sake of a
	// static pod, once for all that is due at a time. An error, as for a Node that does
	// not exist or is being deleted, leaves everything as it is until a later attempt.
	// It may wait, for example until the node is registered, and has to return when its
	// ctx ends.
	Node func(ctx context.Context) (types.UID, error)
	// Ending reports whether containers of a static pod of that name, possibly of an
	// earlier version, are still being stopped or cleaned up. Until they are not, its
	// mirror stays as it is and shows how the pod ends. It must not block; nil: none
	// ever is.
	Ending func(namespace, name string) bool
	// Timeout bounds one call to the API server; 0: DefaultTimeout.
	Timeout time.Duration
	// Hooks are told what happens.
	Hooks Hooks
	// Log gets what is made and removed, and failures; nil discards.
	Log *slog.Logger
}

// Hooks are told what a Keeper does. Any of them may be nil. They are called by many
// goroutines and must not block.
type Hooks struct {
	// Created is called with a mirror as the API server has it, once it was made.
	Created func(*corev1.Pod)
	// Deleted is called with the last known version of a mirror that was removed.
	Deleted func(*corev1.Pod)
	// Failed is called after each attempt that failed; it will be made again.
	Failed func(name types.NamespacedName, err error)
}

// validate names the first field that is wrong and fills defaults in.
func (c Config) validate() (Config, error) {
	switch {
	case c.Name == "":
		return c, errors.New("mirror: Config.Name is empty, want the name of the node")
	case c.Pods == nil:
		return c, errors.New("mirror: Config.Pods is nil, want the client of the API server")
	case c.Node == nil:
		return c, errors.New("mirror: Config.Node is nil, want what finds the UID of the Node")
	case c.Timeout < 0:
		return c, fmt.Errorf("mirror: Config.Timeout is %s, want 0 (%s) or more", c.Timeout, DefaultTimeout)
	}
	if bad := validation.IsDNS1123Subdomain(c.Name); len(bad) > 0 {
		return c, fmt.Errorf("mirror: Config.Name %q: %s", c.Name, bad[0])
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Ending == nil {
		c.Ending = func(string, string) bool { return false }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// Set is what the sources of static pods have delivered.
type Set struct {
	// Pods are the static pods, as package staticpods delivers them. They are shared
	// with the Keeper: read them only.
	Pods []*corev1.Pod
	// Partial says that a source has not delivered yet: no mirror is removed because
	// its static pod is not in the set.
	Partial bool
}

// Keeper keeps the mirror pods of a node. Make one with New.
type Keeper struct {
	cfg  Config
	wake chan struct{}

	mu sync.Mutex // guards the fields below, never held over a call
	// entries has what is known by name, dirty which of them may need something.
	entries map[types.NamespacedName]*entry
	dirty   map[types.NamespacedName]bool
	// synced is true when the watch has shown what there is, whole when every static pod
	// is known.
	synced, whole bool
	outage        outage
}

// New returns a Keeper. It does nothing before Run.
func New(cfg Config) (*Keeper, error) {
	cfg, err := cfg.validate()
	if err != nil {
		return nil, err
	}
	return &Keeper{
		cfg: cfg, wake: make(chan struct{}, 1),
		entries: map[types.NamespacedName]*entry{}, dirty: map[types.NamespacedName]bool{},
	}, nil
}

// Want takes the whole set of static pods. Of two pods of one name the first counts.
func (k *Keeper) Want(set Set) {
	k.mu.Lock()
	defer k.mu.Unlock()
	want := make(map[types.NamespacedName]*corev1.Pod, len(set.Pods))
	for _, pod := range set.Pods {
		if name := nameOf(pod); want[name] == nil {
			want[name] = pod
			k.entryLocked(name)
		}
	}
	completed := !set.Partial && !k.whole
	k.whole = !set.Partial
	for name, e := range k.entries {
		before := e.want
		e.want = want[name]
		if completed || !sameManifest(before, e.want) {
			k.touchLocked(name)
		}
	}
	k.wakeUp()
}

// Have takes the mirror pods of the node that the API server has, as a watch shows them:
// the whole set, after each change. Before the first one nothing is made or removed.
// Pods that are no mirrors may be among them and are passed over. A watch may lag
// behind what the Keeper itself has done. The pods are shared with the Keeper: read them
// only.
func (k *Keeper) Have(pods []*corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.synced = true
	shown := make(map[types.NamespacedName]bool, len(pods))
	for _, pod := range pods {
		if !isMirror(pod) {
			continue
		}
		name := nameOf(pod)
		shown[name] = true
		if k.entryLocked(name).observe(pod) {
			k.touchLocked(name)
		}
	}
	for name, e := range k.entries {
		switch {
		case shown[name]:
		case e.miss():
			k.touchLocked(name)
		case e.empty():
			k.forgetLocked(name)
		}
	}
	k.wakeUp()
}

// Wake has every mirror looked at again, without the waits after failures: for when the
// Node was made, or made anew.
func (k *Keeper) Wake() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name := range k.entries {
		k.touchLocked(name)
	}
	k.outage = outage{}
	k.wakeUp()
}

func (k *Keeper) entryLocked(name types.NamespacedName) *entry {
	e := k.entries[name]
	if e == nil {
		e = &entry{}
		k.entries[name] = e
	}
	return e
}

// touchLocked has a name looked at soon.
func (k *Keeper) touchLocked(name types.NamespacedName) {
	e := k.entries[name]
	e.due, e.failures = time.Time{}, 0
	e.revision++
	k.dirty[name] = true
}

func (k *Keeper) forgetLocked(name types.NamespacedName) {
	delete(k.entries, name)
	delete(k.dirty, name)
}

func (k *Keeper) wakeUp() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}
