package images

import (
	"context"
	"slices"
	"sync"
)

// queue gives out places for pulls: a number for all, and a number for each registry.
// Who waits gets a place by priority, then by order of arrival, but never behind a
// registry that has all its places taken.
type queue struct {
	places      int
	perRegistry int

	// mu guards the fields below.
	mu      sync.Mutex
	taken   int
	busy    map[string]int
	waiting []*ticket
}

// ticket is one that waits.
type ticket struct {
	registry string
	priority int32
	// turn is closed when the ticket has a place.
	turn chan struct{}
}

// wait returns when there is a place, or with the error of ctx. Who got one has to call
// leave.
func (q *queue) wait(ctx context.Context, registry string, priority int32) error {
	t := q.enter(registry, priority)
	select {
	case <-t.turn:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, t); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	} else {
		q.leaveLocked(registry) // the turn came at the same moment
	}
	return context.Cause(ctx)
}

func (q *queue) enter(registry string, priority int32) *ticket {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := &ticket{registry: registry, priority: priority, turn: make(chan struct{})}
	at := slices.IndexFunc(q.waiting, func(o *ticket) bool { return o.priority < priority })
	if at < 0 {
		at = len(q.waiting)
	}
	q.waiting = slices.Insert(q.waiting, at, t)
	q.serveLocked()
	return t
}

func (q *queue) leave(registry string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.leaveLocked(registry)
}

func (q *queue) leaveLocked(registry string) {
	q.taken--
	if q.busy[registry]--; q.busy[registry] == 0 {
		delete(q.busy, registry)
	}
	q.serveLocked()
}

// serveLocked gives places to those who wait, as long as there are any.
func (q *queue) serveLocked() {
	if q.busy == nil {
		q.busy = make(map[string]int)
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(t *ticket) bool {
		if q.taken >= q.places || q.busy[t.registry] >= q.perRegistry {
			return false
		}
		q.taken++
		q.busy[t.registry]++
		close(t.turn)
		return true
	})
}
