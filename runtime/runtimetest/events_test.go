package runtimetest

import (
	"testing"
	"testing/synctest"
)

func TestSubscriberThatLeavesIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Start(t, Config{})
		c := s.Client(t)
		subscribers := func() int {
			synctest.Wait()
			s.world.mu.Lock()
			defer s.world.mu.Unlock()
			return len(s.world.events.subscribers)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range c.Events(t.Context()) {
				return
			}
		}()
		if n := subscribers(); n != 1 {
			t.Errorf("%d subscribers, want 1", n)
		}
		s.Down()
		<-done
		if n := subscribers(); n != 0 {
			t.Errorf("%d subscribers after the end, want none", n)
		}
	})
}
