// Package netns runs functions in other network namespaces.
package netns

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Do runs f in the network namespace at path; empty means where the process is.
// Programs that f starts and sockets that it opens stay there.
func Do(path string, f func() error) error {
	if path == "" {
		return f()
	}
	done := make(chan error, 1)
	go func() {
		// Never unlocked: the thread ends with f, and the namespace it is in with it.
		runtime.LockOSThread()
		done <- func() error {
			file, err := os.Open(path)
			if err != nil {
				return fmt.Errorf("open the network namespace: %w", err)
			}
			defer file.Close()
			if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("enter the network namespace %s: %w", path, err)
			}
			return f()
		}()
	}()
	return <-done
}
