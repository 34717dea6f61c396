package podsync

import (
	"fmt"
	"runtime/debug"
)

// guarded does work of one pod in a goroutine of its own and turns a panic into an error
// of that pod, as the Pool does for its workers: the others go on.
func guarded(work func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return work()
}
