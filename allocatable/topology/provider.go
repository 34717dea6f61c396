package topology

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Request asks for what a pod or a container asks for.
type Request struct {
	Pod *corev1.Pod
	// Container is one of the pod's init or regular containers. nil: all of them, as they
	// run after and beside each other.
	Container *corev1.Container
}

// Provider has resources that belong to NUMA nodes. Its methods are called by one goroutine
// at a time, and have to return in bounded time.
type Provider interface {
	// Hints returns from which nodes the request can be fulfilled. What a container has
	// already comes from where it is.
	Hints(r Request) Hints
	// Allocate gives one container what it asks for, from the nodes of the hint as far as
	// possible. One that has it keeps it. An error with the method Reason() string says
	// for which reason the pod is refused.
	Allocate(ctx context.Context, r Request, hint Hint) error
	// Release takes back all that a pod has.
	Release(uid types.UID)
}
