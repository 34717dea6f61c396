package podsync

import (
	"errors"
	"regexp"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Reasons why a container waits, as kubectl shows them.
const (
	reasonCreating     = "ContainerCreating"
	reasonCrashLoop    = "CrashLoopBackOff"
	reasonBadImage     = "InvalidImageName"
	reasonNeverPull    = "ErrImageNeverPull"
	reasonInspect      = "ImageInspectError"
	reasonPull         = "ErrImagePull"
	reasonPullBackoff  = "ImagePullBackOff"
	reasonConfig       = "CreateContainerConfigError"
	reasonCreate       = "CreateContainerError"
	reasonRunContainer = "RunContainerError"
	reasonPostStart    = "PostStartHookError"
)

// reasonOOM is how runtimes name the end of a container for want of memory.
const reasonOOM = "OOMKilled"

func isNotFound(err error) bool { return err != nil && status.Code(err) == codes.NotFound }

// ignoreNotFound returns nil if what was to be stopped or removed is gone.
func ignoreNotFound(err error) error {
	if isNotFound(err) {
		return nil
	}
	return err
}

// reserved matches what containerd and CRI-O say about a name that is taken; they
// send it without a code of its own.
var reserved = regexp.MustCompile(`name .+ is reserved for|name is reserved|already in use`)

// isReserved reports whether a sandbox or container could not be made because one
// of its name exists: an earlier call whose answer was lost made it, or still does.
// Here and in isUnimplemented alone the text of a runtime's error is read.
func isReserved(err error) bool {
	if err == nil {
		return false
	}
	return status.Code(err) == codes.AlreadyExists || reserved.MatchString(err.Error())
}

// isUnimplemented reports whether a runtime does not have a call. containerd 2 has
// UpdatePodSandboxResources, but the code of its answer says nothing
// (https://github.com/containerd/containerd/pull/13023).
func isUnimplemented(err error) bool {
	code := status.Code(err)
	return code == codes.Unimplemented || code == codes.Unknown && strings.Contains(err.Error(), "not implemented")
}

// startError is why a container could not be started.
type startError struct {
	container string
	reason    string
	err       error
	// after is when it makes sense to try again; 0: no idea.
	after time.Duration
}

func (e *startError) Error() string {
	return "start container " + e.container + ": " + e.reason + ": " + e.err.Error()
}

func (e *startError) Unwrap() error { return e.err }

// waitOf returns the wait that an error names, 0 if it names none.
func waitOf(err error) time.Duration {
	if start, ok := errors.AsType[*startError](err); ok {
		return start.after
	}
	if own, ok := errors.AsType[*syncError](err); ok {
		return own.after
	}
	return 0
}

// syncError is everything that went wrong in one call for a pod.
type syncError struct {
	error
	after time.Duration
}

func (e *syncError) Unwrap() error { return e.error }

// RetryAfter says when it makes sense to try again.
func (e *syncError) RetryAfter() time.Duration { return e.after }

// joined joins errors and keeps the shortest wait if each of them has one.
func joined(errs []error) error {
	all := errors.Join(errs...)
	if all == nil {
		return nil
	}
	after := time.Duration(0)
	for _, err := range errs {
		if err == nil {
			continue
		}
		own := waitOf(err)
		if own <= 0 {
			return all
		}
		if after == 0 || own < after {
			after = own
		}
	}
	return &syncError{error: all, after: after}
}

// usualRetry is how long a pool waits after an error that names no wait.
const usualRetry = 10 * time.Second

// within makes an error ask for another try after at most a time, if there is one.
func within(err error, limit time.Duration) error {
	after := usualRetry
	if own, ok := errors.AsType[*syncError](err); ok && own.after > 0 {
		after = own.after
	}
	if limit <= 0 || limit >= after {
		return err
	}
	return &syncError{error: err, after: limit}
}
