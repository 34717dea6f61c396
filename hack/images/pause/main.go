// Command pause is the first process of every pod's sandbox: it holds the pod's
// namespaces open and does nothing until it is told to end.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// The kernel drops signals to the first process of a PID namespace unless it
	// handles them. Ignoring SIGCHLD lets the kernel reap the children of a
	// shared PID namespace.
	signal.Ignore(syscall.SIGCHLD)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
	<-ended
}
