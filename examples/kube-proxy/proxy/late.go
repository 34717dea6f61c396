package proxy

import (
	"context"
	"sync"
	"time"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/config"
	"github.com/nodekit-go/nodekit/proxier/ipvs"
)

// late is a proxier.Follower that passes on what it is told, in order, when a time is over.
type late struct {
	to    proxier.Follower
	after time.Duration
	wake  chan struct{} // size 1, never closed

	// mu guards what follows. It is not held while to is told.
	mu      sync.Mutex
	waiting []news
}

// news are what to is to be told, and when.
type news struct {
	at   time.Time
	tell func()
}

func newLate(to proxier.Follower, after time.Duration) *late {
	return &late{to: to, after: after, wake: make(chan struct{}, 1)}
}

// Reset implements proxier.Follower.
func (l *late) Reset(s *proxier.State) { l.add(func() { l.to.Reset(s) }) }

// Applied implements proxier.Follower.
func (l *late) Applied(d proxier.Delta) { l.add(func() { l.to.Applied(d) }) }

func (l *late) add(tell func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, news{time.Now().Add(l.after), tell})
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// first takes the first news that wait, false if there are none.
func (l *late) first() (news, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		return news{}, false
	}
	n := l.waiting[0]
	l.waiting = l.waiting[1:]
	return n, true
}

// Run tells what is due until ctx ends, and then returns nil.
func (l *late) Run(ctx context.Context) error {
	for {
		n, more := l.first()
		if !more {
			select {
			case <-ctx.Done():
				return nil
			case <-l.wake: // something was told
			}
			continue
		}
		t := time.NewTimer(time.Until(n.at))
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
		n.tell()
	}
}

// runningFollower is a Follower that works beside.
type runningFollower interface {
	proxier.Follower
	Runner
}

// forgetting returns who tells cleaner, whose flows the kernel is to forget, what is in force,
// and what is to run for that. In mode ipvs an endpoint that is gone may answer for a while:
// the entries of its flows have the answer masqueraded backwards.
func forgetting(m config.Mode, cleaner runningFollower) (proxier.Follower, []Runner) {
	if m != config.IPVS {
		return cleaner, []Runner{cleaner}
	}
	l := newLate(cleaner, ipvs.FlowsLeave)
	return l, []Runner{l, cleaner}
}
