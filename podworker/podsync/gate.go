package podsync

import (
	"context"
	"fmt"
	goruntime "runtime"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// placeFor is how long a pod that is being started may keep others waiting. What takes
// longer waits for somebody else: a registry, a network, a hook.
const placeFor = 3 * time.Second

// gate lets a bounded number of pods be started at a time: critical ones first, then in
// the order in which they came.
type gate struct {
	// mu guards the fields below.
	mu sync.Mutex
	// free is the number of places nobody has.
	free int
	// queue has those who wait, the next one first.
	queue []*place
	// turns counts the pods that came.
	turns uint64
}

// place is the right to start a pod, or the wait for it.
type place struct {
	critical bool
	turn     uint64
	// given is closed when the wait is over.
	given chan struct{}
}

// newGate returns a gate with this many places, 0 for the default.
func newGate(places int) *gate {
	const perCPU, least = 2, 4
	if places == 0 {
		places = max(perCPU*goruntime.NumCPU(), least)
	}
	return &gate{free: places}
}

// enter waits for a place and returns what gives it back, which also happens by itself
// when it is kept for too long. turn is where the pod stands in the order of arrival; it
// is set at first, so that a pod of several steps keeps it.
func (g *gate) enter(ctx context.Context, pod *corev1.Pod, turn *uint64) (leave func(), err error) {
	p := g.take(critical(pod), turn)
	select {
	case <-p.given:
	case <-ctx.Done():
		if g.giveUp(p) {
			return nil, fmt.Errorf("start pod %s/%s: wait for others to start: %w", pod.Namespace, pod.Name, ctx.Err())
		}
	}
	once := sync.OnceFunc(g.leave)
	timer := time.AfterFunc(placeFor, once)
	return func() {
		timer.Stop()
		once()
	}, nil
}

// take returns a place, given or in the queue.
func (g *gate) take(critical bool, turn *uint64) *place {
	g.mu.Lock()
	defer g.mu.Unlock()
	if *turn == 0 {
		g.turns++
		*turn = g.turns
	}
	p := &place{critical: critical, turn: *turn, given: make(chan struct{})}
	if g.free > 0 {
		g.free--
		close(p.given)
		return p
	}
	at, _ := slices.BinarySearchFunc(g.queue, p, before)
	g.queue = slices.Insert(g.queue, at, p)
	return p
}

// before orders places by who is next.
func before(a, b *place) int {
	switch {
	case a.critical != b.critical && a.critical:
		return -1
	case a.critical != b.critical:
		return 1
	case a.turn < b.turn:
		return -1
	}
	return 1
}

// giveUp leaves the queue. It is false if the place was given at the same moment.
func (g *gate) giveUp(p *place) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := slices.Index(g.queue, p)
	if at < 0 {
		return false
	}
	g.queue = slices.Delete(g.queue, at, at+1)
	return true
}

// leave gives a place to the next one.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.queue) == 0 {
		g.free++
		return
	}
	close(g.queue[0].given)
	g.queue = slices.Delete(g.queue, 0, 1)
}

// criticalPriority is the lowest priority of the system's own classes
// (https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/).
const criticalPriority = 2_000_000_000

// critical reports whether the node needs a pod more than others: static pods and those
// of the system's priority classes.
func critical(pod *corev1.Pod) bool {
	source := pod.Annotations["kubernetes.io/config.source"]
	return source != "" && source != "api" || pod.Spec.Priority != nil && *pod.Spec.Priority >= criticalPriority
}
