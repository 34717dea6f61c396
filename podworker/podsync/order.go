package podsync

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// order is the order in which the containers of a pod with sidecars end: the sidecars
// after all others, one after the other, the last to start first
// (https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#termination-with-sidecars).
type order struct {
	// ends has the containers that are being stopped, by name.
	ends map[string][]*ending
	// before has, for each sidecar among them, those that end before it.
	before map[string][]*ending
	// stage counts the sidecars from the end of the pod: the last one to go has the
	// highest.
	stage map[string]int
}

// ending is the end of one container.
type ending struct {
	id string
	// over is closed when the container has ended, or when that failed.
	over   chan struct{}
	failed bool
}

// newOrder returns the order for containers that are stopped now; nil if there is no
// sidecar among them. Containers that are not among them have ended.
func newOrder(pod *corev1.Pod, stops []Stop) *order {
	o := &order{ends: map[string][]*ending{}, before: map[string][]*ending{}, stage: map[string]int{}}
	for i := range stops {
		o.ends[stops[i].Name] = append(o.ends[stops[i].Name], &ending{id: stops[i].ID, over: make(chan struct{})})
	}
	var earlier []*ending
	for i := range pod.Spec.Containers {
		earlier = append(earlier, o.ends[pod.Spec.Containers[i].Name]...)
	}
	for i := len(pod.Spec.InitContainers) - 1; i >= 0; i-- {
		c := &pod.Spec.InitContainers[i]
		if len(o.ends[c.Name]) == 0 || !podstatus.IsSidecar(c) {
			continue
		}
		o.stage[c.Name] = len(o.stage) + 1
		o.before[c.Name] = slices.Clone(earlier)
		earlier = append(earlier, o.ends[c.Name]...)
	}
	if len(o.stage) == 0 {
		return nil
	}
	return o
}

// errOrder is why a sidecar is not stopped yet.
var errOrder = errors.New("another container has to end before it and could not be stopped")

// wait waits until it is the turn of a container, which has so much time left. When that
// is over, those before it are being killed: each sidecar still gets the shortest time a
// container has, so that the order holds even then.
func (o *order) wait(ctx context.Context, name string, left time.Duration) error {
	if o == nil || len(o.before[name]) == 0 {
		return nil
	}
	timer := time.NewTimer(left + time.Duration(o.stage[name]+1)*minStop)
	defer timer.Stop()
	for _, e := range o.before[name] {
		select {
		case <-e.over:
			if e.failed {
				return errOrder
			}
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// done says that the attempt to end a container is over.
func (o *order) done(stop *Stop, err error) {
	if o == nil {
		return
	}
	for _, e := range o.ends[stop.Name] {
		if e.id == stop.ID {
			e.failed = err != nil
			close(e.over)
		}
	}
}
