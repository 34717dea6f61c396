package main

import (
	"errors"
	"fmt"
	"io"
)

// The exit codes beside 0 and those of pods.
const (
	exitFailed = 1
	exitUsage  = 2
)

// usageError is an error of the command line.
type usageError struct{ error }

// Unwrap returns what is wrong with the command line.
func (e usageError) Unwrap() error { return e.error }

// exitError is an exit code of a pod, which becomes the program's.
type exitError int32

func (e exitError) Error() string { return fmt.Sprintf("the pod ended with exit code %d", int32(e)) }

// exit says why the program ends, and returns its exit code.
func exit(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[exitError](err); ok {
		return int(code)
	}
	fmt.Fprintln(stderr, "kubelet:", err)
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	return exitFailed
}
