package shutdown

import (
	"context"
	"sync"
	"time"
)

// Trigger is a Source that is pulled by hand: by a signal, a button, a notice of the
// cloud. Who pulls it holds the machine up until Released. Make one with NewTrigger; its
// methods may be called from any goroutine.
type Trigger struct {
	wake chan struct{}

	mu sync.Mutex // guards the fields below
	// down is what was said last.
	down bool
	// released is closed when the pods have ended; Cancel makes a new one.
	released chan struct{}
	done     bool
}

// NewTrigger returns a Trigger that has not been pulled.
func NewTrigger() *Trigger {
	return &Trigger{wake: make(chan struct{}, 1), released: make(chan struct{})}
}

// Pull says that the machine is about to go down.
func (t *Trigger) Pull() { t.set(true) }

// Cancel says that it is not.
func (t *Trigger) Cancel() { t.set(false) }

func (t *Trigger) set(down bool) {
	t.mu.Lock()
	t.down = down
	if !down && t.done {
		t.released, t.done = make(chan struct{}), false
	}
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Released returns a channel that is closed when the pods have ended after Pull.
func (t *Trigger) Released() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.released
}

// Watch implements Source.
func (t *Trigger) Watch(ctx context.Context, _ time.Duration, report func(down bool)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.wake:
		}
		t.mu.Lock()
		down := t.down
		t.mu.Unlock()
		report(down)
	}
}

// Release implements Source.
func (t *Trigger) Release() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.done {
		t.done = true
		close(t.released)
	}
	return nil
}
