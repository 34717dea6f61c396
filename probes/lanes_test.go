package probes

import (
	"sync"
	"testing"
	"testing/synctest"
)

// However many attempts are under way, all of them begin, and close waits for them; those
// that follow are made by the same goroutines.
func TestLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLanes()
		var mu sync.Mutex
		begun, ended := 0, 0
		count := func(n *int) {
			mu.Lock()
			defer mu.Unlock()
			*n++
		}
		const many = 3 * maxLanes
		gate := make(chan struct{})
		for range many {
			l.do(func() {
				count(&begun)
				<-gate
				count(&ended)
			})
		}
		synctest.Wait()
		if begun != many || ended != 0 {
			t.Errorf("%d of %d have begun, %d have ended", begun, many, ended)
		}
		close(gate)
		synctest.Wait()
		for range many {
			l.do(func() { count(&ended) })
			synctest.Wait()
		}
		if l.open != maxLanes {
			t.Errorf("%d goroutines are kept, want %d", l.open, maxLanes)
		}
		l.close()
		if ended != 2*many {
			t.Errorf("%d have ended, want %d", ended, 2*many)
		}
	})
}
