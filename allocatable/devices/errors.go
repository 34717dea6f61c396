package devices

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// UnavailableError says why a container does not get the devices that it asks for.
type UnavailableError struct {
	// Resource is the name of the devices, such as "example.com/gpu".
	Resource string
	// Again is true if it makes sense to try again: the plugin may register still, or
	// did not answer. Else what the container asks for is not to be had here.
	Again bool
	// Err says what is wrong, in the words of the kubelet where it has some.
	Err error
}

// Error returns the text of Err.
func (e *UnavailableError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *UnavailableError) Unwrap() error { return e.Err }

// NotYet returns Again.
func (e *UnavailableError) NotYet() bool { return e.Again }

func notYet(resource, format string, args ...any) error {
	return &UnavailableError{Resource: resource, Again: true, Err: fmt.Errorf(format, args...)}
}

func never(resource, format string, args ...any) error {
	return &UnavailableError{Resource: resource, Err: fmt.Errorf(format, args...)}
}

// callFailed classifies what a plugin answered. One that could not be reached or took
// too long may do better next time; a refusal is one.
func callFailed(ctx context.Context, resource, call string, err error) error {
	code := status.Code(err)
	again := ctx.Err() != nil || code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Canceled || errors.Is(err, context.DeadlineExceeded)
	return &UnavailableError{Resource: resource, Again: again, Err: fmt.Errorf("device plugin %s: %s: %w", resource, call, err)}
}
