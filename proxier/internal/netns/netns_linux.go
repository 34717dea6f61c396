// Package netns runs functions in other network namespaces.
package netns

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/internal/osthread"
)

// Do runs f in the network namespace at path; empty means where the process is.
// Programs that f starts and sockets that it opens stay there.
func Do(path string, f func() error) error {
	if path == "" {
		return f()
	}
	return osthread.Do(func() error {
		file, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("open the network namespace: %w", err)
		}
		defer file.Close()
		if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter the network namespace %s: %w", path, err)
		}
		return f()
	})
}
