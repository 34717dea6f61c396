// Package osthread runs functions on operating system threads that nothing else
// uses, before or after: they may move their thread into other namespaces.
package osthread

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Do runs f on a thread of its own and returns its error. The thread ends after f,
// and lets go of the namespaces it is in. It is never the main thread of the process:
// the Go runtime cannot end that one and would park it where f left it, and it is what
// /proc/self shows. Goroutines that f starts run on other threads.
func Do(f func() error) error {
	done := make(chan error, 1)
	go func() {
		// Ended while it is locked, a goroutine takes its thread with it.
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			done <- f()
			return
		}
		// While this goroutine has the main thread no other goroutine gets it.
		defer runtime.UnlockOSThread()
		done <- Do(f)
	}()
	return <-done
}
