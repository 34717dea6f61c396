package node

import (
	"fmt"
	"sync"
	"time"
)

const (
	// runtimeDownAfter is how long the runtime may be silent: the kubelet calls it
	// down after 30 s, too.
	runtimeDownAfter = 30 * time.Second
	// stuckAfter is how far the pod workers may be behind. They only start calls,
	// which takes microseconds.
	stuckAfter = time.Minute
)

// pulse remembers when something last worked.
type pulse struct {
	mu   sync.Mutex // guards the fields below
	last time.Time
	err  error
}

// beat records an attempt and reports whether its result differs in kind from the
// one before: the first attempt, a first failure, or a recovery.
func (p *pulse) beat(now time.Time, err error) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed = (err == nil) != (p.err == nil) || err == nil && p.last.IsZero()
	p.err = err
	if err == nil {
		p.last = now
	}
	return changed
}

// fault returns why nothing has worked for longer than limit, nil otherwise.
func (p *pulse) fault(what string, limit time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch silent := time.Since(p.last); {
	case p.last.IsZero() && p.err != nil:
		return fmt.Errorf("%s has not answered yet: %w", what, p.err)
	case p.last.IsZero():
		return fmt.Errorf("%s has not answered yet", what)
	case silent <= limit:
		return nil
	case p.err != nil:
		return fmt.Errorf("%s was last heard %s ago: %w", what, silent.Round(time.Second), p.err)
	default:
		return fmt.Errorf("%s was last heard %s ago", what, silent.Round(time.Second))
	}
}

// lasting is fault for something that may never have been asked, which is no fault.
func (p *pulse) lasting(what string, limit time.Duration) error {
	p.mu.Lock()
	fine := p.err == nil
	p.mu.Unlock()
	if fine {
		return nil
	}
	return p.fault(what, limit)
}
