package node

import (
	"context"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/volume"
	volumeobjects "github.com/nodekit-go/nodekit/podworker/volume/objects"
	"github.com/nodekit-go/nodekit/staticpods"
)

// objectTimeout bounds how long the API server is asked for an object that a pod refers
// to.
const objectTimeout = 10 * time.Second

// objects are the ConfigMaps and Secrets that pods refer to. Pods of the API server get
// those of the API server, pods of manifests those that stand beside them: neither sees
// what is the other's.
type objects struct {
	// store is nil on a node without an API server.
	store   *volumeobjects.Store
	changed func(volume.Object, []types.UID)
	// kept are those of an earlier process; nil: there are none.
	kept *keptObjects

	mu sync.Mutex // guards local
	// local are the objects of the manifests.
	local map[volume.Object]metav1.Object
}

var _ volume.Objects = (*objects)(nil)

// newObjects returns the objects of a node, and has changed called when one has changed,
// with the pods that refer to it.
func newObjects(n *Node, changed func(volume.Object, []types.UID)) (*objects, error) {
	o := &objects{changed: changed}
	client := n.cfg.Client
	if client == nil {
		return o, nil
	}
	var err error
	o.store, err = volumeobjects.New(volumeobjects.Config{
		ConfigMaps: func(namespace string) volumeobjects.ConfigMaps { return client.CoreV1().ConfigMaps(namespace) },
		Secrets:    func(namespace string) volumeobjects.Secrets { return client.CoreV1().Secrets(namespace) },
		Changed:    changed,
		Log:        n.log,
	})
	return o, err
}

// run follows the objects of the API server until ctx ends.
func (o *objects) run(ctx context.Context) error {
	if o.store == nil {
		return nil
	}
	return o.store.Run(ctx)
}

// use says that a pod is there, and waits for the objects it refers to, but not for long:
// why one is missing is told where it is needed.
func (o *objects) use(ctx context.Context, pod *corev1.Pod) {
	if o.store == nil || ofManifest(pod) {
		return
	}
	o.store.Use(pod)
	ctx, cancel := context.WithTimeout(ctx, o.kept.timeout(pod))
	defer cancel()
	_ = o.store.Wait(ctx, pod.UID)
}

// release says that a pod has nothing left that refers to an object.
func (o *objects) release(uid types.UID) {
	if o.store != nil {
		o.store.Release(uid)
	}
}

// replace takes the objects of the manifests, and tells of those that have changed.
func (o *objects) replace(set staticpods.Set) {
	next := map[volume.Object]metav1.Object{}
	for _, c := range set.ConfigMaps {
		next[volume.Object{Kind: volume.ConfigMaps, Namespace: c.Namespace, Name: c.Name}] = c
	}
	for _, s := range set.Secrets {
		next[volume.Object{Kind: volume.Secrets, Namespace: s.Namespace, Name: s.Name}] = s
	}
	o.mu.Lock()
	before := o.local
	o.local = next
	o.mu.Unlock()
	users := usersOf(set.Pods)
	for name := range next {
		if !reflect.DeepEqual(before[name], next[name]) {
			o.changed(name, users[name])
		}
	}
	for name := range before {
		if next[name] == nil {
			o.changed(name, users[name])
		}
	}
}

// usersOf returns, for each object, the pods that refer to it.
func usersOf(pods []*corev1.Pod) map[volume.Object][]types.UID {
	users := map[volume.Object][]types.UID{}
	for _, pod := range pods {
		for _, name := range volumeobjects.References(pod) {
			users[name] = append(users[name], pod.UID)
		}
	}
	return users
}

// ConfigMap implements volume.Objects.
func (o *objects) ConfigMap(ctx context.Context, pod *corev1.Pod, name string) (*corev1.ConfigMap, error) {
	if !ofManifest(pod) && o.store != nil {
		c, err := o.store.ConfigMap(ctx, pod, name)
		return o.kept.configMap(pod, name, c, err)
	}
	if c, ok := o.beside(volume.ConfigMaps, pod, name).(*corev1.ConfigMap); ok {
		return c, nil
	}
	return nil, missing("configmaps", name)
}

// Secret implements volume.Objects.
func (o *objects) Secret(ctx context.Context, pod *corev1.Pod, name string) (*corev1.Secret, error) {
	if !ofManifest(pod) && o.store != nil {
		s, err := o.store.Secret(ctx, pod, name)
		return o.kept.secret(ctx, pod, name, s, err)
	}
	if s, ok := o.beside(volume.Secrets, pod, name).(*corev1.Secret); ok {
		return s, nil
	}
	return nil, missing("secrets", name)
}

// beside returns an object that stands beside the manifest of a pod, nil if there is none.
func (o *objects) beside(kind volume.Kind, pod *corev1.Pod, name string) metav1.Object {
	if !ofManifest(pod) {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.local[volume.Object{Kind: kind, Namespace: pod.Namespace, Name: name}]
}

func missing(kind, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
}

// of returns the objects as the variables of a pod see them. They were waited for before,
// so ctx hardly matters.
func (o *objects) of(ctx context.Context, pod *corev1.Pod) podspec.Objects {
	return podObjects{
		configMap: func(name string) (*corev1.ConfigMap, error) { return o.ConfigMap(ctx, pod, name) },
		secret:    func(name string) (*corev1.Secret, error) { return o.Secret(ctx, pod, name) },
	}
}

// podObjects are the objects of one pod.
type podObjects struct {
	configMap func(name string) (*corev1.ConfigMap, error)
	secret    func(name string) (*corev1.Secret, error)
}

// ConfigMap implements podspec.Objects.
func (p podObjects) ConfigMap(_, name string) (*corev1.ConfigMap, error) { return p.configMap(name) }

// Secret implements podspec.Objects.
func (p podObjects) Secret(_, name string) (*corev1.Secret, error) { return p.secret(name) }
