package objects

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
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

// Kind is a kind of objects.
type Kind uint8

// The kinds of objects that pods refer to by name.
const (
	ConfigMap Kind = iota + 1
	Secret
)

// String returns the kind in lower case, as in "configmap".
func (k Kind) String() string {
	switch k {
	case ConfigMap:
		return "configmap"
	case Secret:
		return "secret"
	}
	return "invalid"
}

// resource returns the plural of a kind, as the API server's errors have it.
func (k Kind) resource() string { return k.String() + "s" }

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
