package images

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Reason is why a container waits for its image, as kubectl shows it.
type Reason string

// The reasons, which are the kubelet's.
const (
	// InvalidName means that the name of the image cannot be read.
	InvalidName Reason = "InvalidImageName"
	// NeverPull means that the image may not be pulled and is not there, or is not this
	// pod's to use, which is not told apart on purpose.
	NeverPull Reason = "ErrImageNeverPull"
	// InspectFailed means that the runtime could not say whether the image is there.
	InspectFailed Reason = "ImageInspectError"
	// PullFailed means that the pull failed.
	PullFailed Reason = "ErrImagePull"
	// BackOff means that the last pull failed not long ago.
	BackOff Reason = "ImagePullBackOff"
	// RegistryUnavailable means that the runtime could not reach the registry.
	RegistryUnavailable Reason = "RegistryUnavailable"
	// BadSignature means that the runtime refuses the image for its signature.
	BadSignature Reason = "SignatureValidationFailed"
)

// Error is the error of a Manager, unless its context ended.
type Error struct {
	// Reason is why the container waits.
	Reason Reason
	// Image is the name of the image as the pod writes it.
	Image string
	// Err is the cause; it may have a gRPC code.
	Err error

	message string
	after   time.Duration
}

// Error returns the message that a waiting container shows.
func (e *Error) Error() string { return e.message }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// WaitingReason returns Reason for those who don't import this package.
func (e *Error) WaitingReason() string { return string(e.Reason) }

// RetryAfter says when it makes sense to try again; 0 means that nothing is known.
func (e *Error) RetryAfter() time.Duration { return e.after }

// errQPS is why a pull beyond Config.QPS fails; the words are the kubelet's.
var errQPS = errors.New("pull QPS exceeded")

// words returns what a runtime said, without the code if that adds nothing.
func words(err error) string {
	s, ok := status.FromError(err)
	if ok && (s.Code() == codes.Unknown || s.Code() == codes.NotFound) {
		return s.Message()
	}
	return err.Error()
}

// classify tells why a pull failed, and the message for it. It is the one place that
// reads the text of a runtime's error: CRI passes these two kinds at its beginning
// (https://github.com/kubernetes/cri-api/blob/master/pkg/errors/errors.go).
func classify(image string, err error) (Reason, string) {
	text := words(err)
	said := status.Convert(err).Message()
	for _, kind := range []struct {
		reason Reason
		what   string
	}{
		{RegistryUnavailable, "the registry is unavailable"},
		{BadSignature, "the signature validation failed"},
	} {
		if rest, ok := strings.CutPrefix(said, string(kind.reason)); ok {
			return kind.reason, fmt.Sprintf("image pull failed for %s because %s%s", image, kind.what, rest)
		}
	}
	return PullFailed, text
}
