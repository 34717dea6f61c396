package source

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Sink takes what a source finds. *proxier.Feed is one, *Pods another. Objects are
// not changed after they were handed over. To delete what is unknown is not an
// error.
type Sink interface {
	SetService(svc *corev1.Service)
	DeleteService(name types.NamespacedName)
	SetEndpointSlice(slice *discoveryv1.EndpointSlice)
	DeleteEndpointSlice(name types.NamespacedName)
	// Synced says that everything known at the start has been delivered. It may be
	// called again.
	Synced()
}
