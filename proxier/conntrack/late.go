package conntrack

import (
	"context"
	"sync"
	"time"
)

// late does what it is given, in order, each when a time is over.
type late struct {
	after time.Duration
	wake  chan struct{} // size 1, never closed

	mu      sync.Mutex // guards waiting; it is not held while something is done
	waiting []task
}

// task is what is to be done, and when.
type task struct {
	at time.Time
	do func()
}

func newLate(after time.Duration) *late { return &late{after: after, wake: make(chan struct{}, 1)} }

// add has something done when the time is over, or at once if there is none to wait.
func (l *late) add(do func()) {
	if l.after == 0 {
		do()
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, task{time.Now().Add(l.after), do})
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// first takes the first task that waits, false if there is none.
func (l *late) first() (task, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		return task{}, false
	}
	t := l.waiting[0]
	l.waiting = l.waiting[1:]
	return t, true
}

// run does what is due until ctx ends.
func (l *late) run(ctx context.Context) {
	for {
		t, more := l.first()
		if !more {
			select {
			case <-ctx.Done():
				return
			case <-l.wake: // something was added
			}
			continue
		}
		due := time.NewTimer(time.Until(t.at))
		select {
		case <-ctx.Done():
			due.Stop()
			return
		case <-due.C:
		}
		t.do()
	}
}
