// Package flight runs work that several goroutines ask for at the same time once for
// all of them, for as long as at least one of them still wants it.
package flight

import (
	"context"
	"sync"
)

// Group holds work under way, by key. The zero value is ready for use. It is safe for
// use by many goroutines.
type Group[K comparable, V any] struct {
	// mu guards the fields below, and the waiters of each call.
	mu    sync.Mutex
	calls map[K]*call[V]
}

// call is work under way.
type call[V any] struct {
	cancel  context.CancelFunc
	waiters int
	// done is closed when value and err are there.
	done  chan struct{}
	value V
	err   error
}

// Do returns what work returns, or the error of ctx. If work for the key is under way
// it waits for that instead of beginning its own.
//
// work gets the values of the ctx of whoever asked first, and a cancellation of its
// own: its context ends when nobody waits any more. The last one to give up waits
// for work to return, so that Do leaves no goroutine behind. It gets the value of work,
// and no error if work succeeded all the same.
func (g *Group[K, V]) Do(ctx context.Context, key K, work func(context.Context) (V, error)) (V, error) {
	c := g.join(ctx, key, work)
	select {
	case <-c.done:
		return c.value, c.err
	case <-ctx.Done():
	}
	if !g.leave(key, c) {
		var none V
		return none, context.Cause(ctx)
	}
	c.cancel()
	<-c.done
	if c.err == nil {
		return c.value, nil
	}
	return c.value, context.Cause(ctx)
}

func (g *Group[K, V]) join(ctx context.Context, key K, work func(context.Context) (V, error)) *call[V] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.calls[key]; c != nil {
		c.waiters++
		return c
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &call[V]{cancel: cancel, waiters: 1, done: make(chan struct{})}
	if g.calls == nil {
		g.calls = make(map[K]*call[V])
	}
	g.calls[key] = c
	go func() {
		defer cancel()
		c.value, c.err = work(own)
		g.forget(key, c)
		close(c.done)
	}()
	return c
}

// leave reports whether the one that gives up was the last. Whoever comes after that
// begins anew.
func (g *Group[K, V]) leave(key K, c *call[V]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.waiters--
	if c.waiters > 0 {
		return false
	}
	if g.calls[key] == c {
		delete(g.calls, key)
	}
	return true
}

func (g *Group[K, V]) forget(key K, c *call[V]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.calls[key] == c {
		delete(g.calls, key)
	}
}
