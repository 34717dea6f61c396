package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// keepGuest runs a command and ends with it. As the first process of a PID namespace it
// takes everything in there along: user-mode Linux is a family of processes, which
// outlive their father when he is killed. User-mode Linux itself can't be the first
// process: those survive their own abort(3).
func keepGuest(command []string) int {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "vm: %s: %v\n", command[0], err)
		return failed
	}
	return 0
}
