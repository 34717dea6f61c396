package cni

import (
	"context"
	"math"
	"sync"

	"golang.org/x/sync/semaphore"
)

// gate lets many operations in together, or one alone. Who waits to be alone is
// not overtaken.
type gate struct{ sem *semaphore.Weighted }

func newGate() gate { return gate{semaphore.NewWeighted(math.MaxInt64)} }

// shared returns the function that leaves the gate.
func (g gate) shared(ctx context.Context) (func(), error) { return g.enter(ctx, 1) }

// alone returns the function that leaves the gate.
func (g gate) alone(ctx context.Context) (func(), error) { return g.enter(ctx, math.MaxInt64) }

func (g gate) enter(ctx context.Context, weight int64) (func(), error) {
	if err := g.sem.Acquire(ctx, weight); err != nil {
		return nil, err
	}
	return func() { g.sem.Release(weight) }, nil
}

// queues is a lock for each container, kept only while somebody wants it.
type queues struct {
	// mu guards the map and the counts in it, not the waiting.
	mu sync.Mutex
	of map[string]*queue
}

type queue struct {
	turn  chan struct{}
	users int
}

// enter waits for the turn and returns the function that passes it on.
func (q *queues) enter(ctx context.Context, container string) (func(), error) {
	q.mu.Lock()
	if q.of == nil {
		q.of = map[string]*queue{}
	}
	own := q.of[container]
	if own == nil {
		own = &queue{turn: make(chan struct{}, 1)}
		q.of[container] = own
	}
	own.users++
	q.mu.Unlock()
	select {
	case own.turn <- struct{}{}:
		return func() { <-own.turn; q.forget(container, own) }, nil
	case <-ctx.Done():
		q.forget(container, own)
		return nil, ctx.Err()
	}
}

func (q *queues) forget(container string, own *queue) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(q.of, container)
	}
}
