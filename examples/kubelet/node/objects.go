package node

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/staticpods"
)

// objectTimeout bounds how long the API server is asked for an object that a pod refers
// to.
const objectTimeout = 10 * time.Second

// objects are the ConfigMaps and Secrets that pods refer to: those among the manifests,
// and those of the API server if there is one.
type objects struct {
	// configMap and secret ask the API server; nil: there is none.
	configMap func(namespace, name string) (*corev1.ConfigMap, error)
	secret    func(namespace, name string) (*corev1.Secret, error)

	mu  sync.Mutex // guards set
	set staticpods.Set
}

var _ podspec.Objects = (*objects)(nil)

// newObjects returns the objects of an API server, which is asked until ctx ends; with
// nil there is none.
func newObjects(ctx context.Context, client kubernetes.Interface) *objects {
	if client == nil {
		return &objects{}
	}
	return &objects{
		configMap: func(namespace, name string) (*corev1.ConfigMap, error) {
			ctx, cancel := context.WithTimeout(ctx, objectTimeout)
			defer cancel()
			return client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		secret: func(namespace, name string) (*corev1.Secret, error) {
			ctx, cancel := context.WithTimeout(ctx, objectTimeout)
			defer cancel()
			return client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		},
	}
}

func (o *objects) replace(set staticpods.Set) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.set = staticpods.Set{ConfigMaps: set.ConfigMaps, Secrets: set.Secrets}
}

// ConfigMap implements podspec.Objects.
func (o *objects) ConfigMap(namespace, name string) (*corev1.ConfigMap, error) {
	o.mu.Lock()
	found := named(o.set.ConfigMaps, namespace, name)
	o.mu.Unlock()
	switch {
	case found != nil:
		return found, nil
	case o.configMap != nil:
		return o.configMap(namespace, name)
	}
	return nil, missing("configmaps", name)
}

// Secret implements podspec.Objects.
func (o *objects) Secret(namespace, name string) (*corev1.Secret, error) {
	o.mu.Lock()
	found := named(o.set.Secrets, namespace, name)
	o.mu.Unlock()
	switch {
	case found != nil:
		return found, nil
	case o.secret != nil:
		return o.secret(namespace, name)
	}
	return nil, missing("secrets", name)
}

// named returns the object of that name, nil if there is none.
func named[T metav1.Object](list []T, namespace, name string) (found T) {
	for _, object := range list {
		if object.GetNamespace() == namespace && object.GetName() == name {
			return object
		}
	}
	return found
}

func missing(kind, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
}
