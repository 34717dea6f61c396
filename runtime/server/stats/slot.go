package stats

import (
	"context"
	"sync"
	"time"
)

// slot keeps what a source said last that may be slow, or hang. A question goes on without
// those who stop waiting for it.
type slot[T any] struct {
	mu sync.Mutex // guards the fields below
	// last is what the source said at; zero: it has not said anything.
	last T
	at   time.Time
	// busy is closed when the question that is out is answered; nil: none is.
	busy chan struct{}
	// late says that somebody has waited in vain for the question that is out.
	late bool
}

// refresh asks, unless a question is out or the last answer is younger than age.
func (s *slot[T]) refresh(b *background, age time.Duration, ask func(context.Context) (T, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy != nil || !s.at.IsZero() && time.Since(s.at) < age {
		return
	}
	busy := make(chan struct{})
	started := b.start(func(ctx context.Context) {
		v, err := ask(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		if err == nil {
			s.last, s.at = v, time.Now()
		}
		s.busy = nil
		close(busy)
	})
	if started {
		s.busy, s.late = busy, false
	}
}

// get waits for the question that is out until ctx ends, and returns what the source said
// last, and when; the time is zero if it never did. For one that others have waited for in
// vain it does not wait.
func (s *slot[T]) get(ctx context.Context) (T, time.Time) {
	s.mu.Lock()
	busy, late := s.busy, s.late
	s.mu.Unlock()
	if busy != nil && !late {
		select {
		case <-busy:
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = s.busy != nil
	return s.last, s.at
}

// background runs questions until the Collector ends.
type background struct {
	mu sync.Mutex // guards the fields below
	// ctx is nil before Run and after it.
	ctx context.Context //nolint:containedctx // that of Run, which owns the goroutines
	all sync.WaitGroup
}

// start has do run beside the caller. It is false before Run and when Run is ending.
func (b *background) start(do func(context.Context)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx == nil {
		return false
	}
	ctx := b.ctx
	b.all.Go(func() { do(ctx) })
	return true
}

// endLimit is how long questions have to end when the Collector does. One about a file
// system that hangs may never end.
const endLimit = 2 * time.Second

// run lets questions be asked until ctx ends, and then waits for them.
func (b *background) run(ctx context.Context) {
	b.mu.Lock()
	b.ctx = ctx
	b.mu.Unlock()
	<-ctx.Done()
	b.mu.Lock()
	b.ctx = nil
	b.mu.Unlock()
	ended := make(chan struct{})
	go func() { defer close(ended); b.all.Wait() }()
	late := time.NewTimer(endLimit)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
	}
}

// gate lets a few through at a time, but waits for nobody for long: who hangs inside does
// not hold up the others.
type gate struct{ places chan struct{} }

const (
	gateWidth = 8
	gateLimit = 2 * time.Second
)

// pass calls do when there is a place.
func (g *gate) pass(ctx context.Context, do func()) {
	select {
	case g.places <- struct{}{}:
	case <-ctx.Done():
		return
	}
	var once sync.Once
	leave := func() { once.Do(func() { <-g.places }) }
	hangs := time.AfterFunc(gateLimit, leave)
	defer hangs.Stop()
	defer leave()
	do()
}
