package objects

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

// ConfigMaps is what a [Store] needs of the API server for the ConfigMaps of one
// namespace. client-go's typed client is one.
type ConfigMaps interface {
	List(ctx context.Context, opts metav1.ListOptions) (*corev1.ConfigMapList, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// Secrets is [ConfigMaps] for Secrets.
type Secrets interface {
	List(ctx context.Context, opts metav1.ListOptions) (*corev1.SecretList, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// listing is what a list of one name has.
type listing struct {
	// object is nil if there is none of that name.
	object  metav1.Object
	version string
}

// client is the API server, whatever the kind.
type client struct {
	list  func(ctx context.Context, namespace string, opts metav1.ListOptions) (listing, error)
	watch func(ctx context.Context, namespace string, opts metav1.ListOptions) (watch.Interface, error)
}

func configMapClient(of func(namespace string) ConfigMaps) client {
	return client{
		list: func(ctx context.Context, namespace string, opts metav1.ListOptions) (listing, error) {
			list, err := of(namespace).List(ctx, opts)
			if err != nil {
				return listing{}, err
			}
			l := listing{version: list.ResourceVersion}
			if len(list.Items) > 0 {
				l.object = &list.Items[0]
			}
			return l, nil
		},
		watch: func(ctx context.Context, namespace string, opts metav1.ListOptions) (watch.Interface, error) {
			return of(namespace).Watch(ctx, opts)
		},
	}
}

func secretClient(of func(namespace string) Secrets) client {
	return client{
		list: func(ctx context.Context, namespace string, opts metav1.ListOptions) (listing, error) {
			list, err := of(namespace).List(ctx, opts)
			if err != nil {
				return listing{}, err
			}
			l := listing{version: list.ResourceVersion}
			if len(list.Items) > 0 {
				l.object = &list.Items[0]
			}
			return l, nil
		},
		watch: func(ctx context.Context, namespace string, opts metav1.ListOptions) (watch.Interface, error) {
			return of(namespace).Watch(ctx, opts)
		},
	}
}

// holds reports whether an object is the one of the entry.
func (e *entry) holds(object metav1.Object) bool {
	kind := volume.Kind(0)
	switch object.(type) {
	case *corev1.ConfigMap:
		kind = volume.ConfigMaps
	case *corev1.Secret:
		kind = volume.Secrets
	}
	return kind == e.name.Kind && object.GetName() == e.name.Name && object.GetNamespace() == e.name.Namespace
}

// immutable reports whether an object says that it never changes.
func immutable(object metav1.Object) bool {
	var flag *bool
	switch o := object.(type) {
	case *corev1.ConfigMap:
		flag = o.Immutable
	case *corev1.Secret:
		flag = o.Immutable
	}
	return flag != nil && *flag
}
