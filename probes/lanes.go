package probes

import "sync"

// maxLanes is how many goroutines are kept: about as many attempts as are under way at
// the same time on a node with many pods, whose probes are answered at once.
const maxLanes = 16

// lanes are goroutines that make one attempt after the other. They are kept, as a new
// goroutine has to grow its stack in each attempt, which costs more than many attempts
// themselves. Attempts for which none is free get a goroutine of their own.
type lanes struct {
	next chan func()
	open int // how many there are
	wait sync.WaitGroup
}

func newLanes() *lanes { return &lanes{next: make(chan func())} }

// do has f called by a goroutine. It is called by one goroutine at a time.
func (l *lanes) do(f func()) {
	select {
	case l.next <- f:
		return
	default: // none is free
	}
	if l.open == maxLanes {
		l.wait.Go(f)
		return
	}
	l.open++
	l.wait.Go(func() {
		for ok := true; ok; f, ok = <-l.next {
			f()
		}
	})
}

// close waits until all that was begun is done. Nothing may be begun after it.
func (l *lanes) close() {
	close(l.next)
	l.wait.Wait()
}
