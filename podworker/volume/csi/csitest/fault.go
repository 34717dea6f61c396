package csitest

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Fault is what happens instead of a call. do is the call itself.
type Fault func(ctx context.Context, do func() error) error

// injected is a fault for the next calls of a method.
type injected struct {
	fault  Fault
	left   int
	always bool
}

// Hang answers nothing until the caller gives up.
func Hang(ctx context.Context, _ func() error) error {
	<-ctx.Done()
	return ctx.Err()
}

// Lie answers that all went well and does nothing.
func Lie(context.Context, func() error) error { return nil }

// Fail does nothing and answers with an error.
func Fail(code codes.Code, message string) Fault {
	return func(context.Context, func() error) error { return status.Error(code, message) }
}

// FailAfter does what it is told and answers with an error all the same.
func FailAfter(code codes.Code, message string) Fault {
	return func(_ context.Context, do func() error) error {
		if err := do(); err != nil {
			return err
		}
		return status.Error(code, message)
	}
}

// Slow takes its time before it does what it is told, whether or not the caller waits.
func Slow(d time.Duration) Fault {
	return func(_ context.Context, do func() error) error {
		<-time.After(d)
		return do()
	}
}
