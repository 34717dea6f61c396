package runtime

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The texts are those of the named runtimes, with ids shortened.
func TestClassify(t *testing.T) {
	for _, c := range []struct {
		name string
		code codes.Code
		text string
		from peer
		// want is nil for a failure of no kind.
		want     error
		wantCode codes.Code
	}{
		{"containerd: unknown container", codes.NotFound, `an error occurred when try to find container "c": not found`, peerRuntime, ErrNotFound, codes.NotFound},
		{"containerd: sandbox name", codes.Unknown, `failed to reserve sandbox name "n": name "n" is reserved for "0f02"`, peerRuntime, ErrAlreadyExists, codes.AlreadyExists},
		{"containerd: container name", codes.Unknown, `failed to reserve container name "n": name "n" is reserved for "6eb7"`, peerRuntime, ErrAlreadyExists, codes.AlreadyExists},
		{"containerd 2: sandbox name", codes.FailedPrecondition, `failed to reserve sandbox name "n": name "n" is reserved for "0f02"`, peerRuntime, ErrAlreadyExists, codes.AlreadyExists},
		{"precondition of something else", codes.FailedPrecondition, "sandbox is not ready", peerRuntime, nil, codes.FailedPrecondition},
		{"CRI-O: sandbox name", codes.Unknown, `error reserving pod name n for id 0f02: name is reserved`, peerRuntime, ErrAlreadyExists, codes.AlreadyExists},
		{"CRI-O: container gone", codes.Unknown, `could not find container "6eb7": container with ID starting with 6eb7 not found: ID does not exist`, peerRuntime, ErrNotFound, codes.NotFound},
		{"CRI-O: resources of a container that is gone", codes.Unknown, `container with ID starting with 6eb7 not found: ID does not exist`, peerRuntime, ErrNotFound, codes.NotFound},
		{"any: already exists", codes.AlreadyExists, "sandbox exists", peerRuntime, ErrAlreadyExists, codes.AlreadyExists},
		{"containerd: no such command", codes.Unknown, `failed to exec in container: OCI runtime exec failed: exec: "x": executable file not found in $PATH`, peerRuntime, nil, codes.Unknown},
		{"containerd 2: starting", codes.Unavailable, "server is not initialized yet: unavailable", peerRuntime, ErrRuntimeDown, codes.Unavailable},
		{"containerd: shim of a container died", codes.Unavailable, "ttrpc: closed: unavailable", peerRuntime, nil, codes.Unavailable},
		{"containerd: starting", codes.Unknown, "server is not initialized yet", peerRuntime, ErrRuntimeDown, codes.Unavailable},
		{"containerd: exec timeout", codes.DeadlineExceeded, "failed to exec in container: timeout 1s exceeded: context deadline exceeded", peerRuntime, context.DeadlineExceeded, codes.DeadlineExceeded},
		{"containerd: before RuntimeConfig", codes.Unimplemented, "unknown method RuntimeConfig for service runtime.v1.RuntimeService", peerRuntime, ErrUnimplemented, codes.Unimplemented},
		{"a registry is away", codes.Unavailable, "RegistryUnavailable: try later", peerRuntime, nil, codes.Unavailable},
		{"gRPC: no socket", codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial unix /run/cri.sock: connect: no such file or directory"`, peerTransport, ErrRuntimeDown, codes.Unavailable},
		{"gRPC: runtime killed", codes.Unavailable, "error reading from server: EOF", peerTransport, ErrRuntimeDown, codes.Unavailable},
		{"gRPC: answer too large", codes.ResourceExhausted, "grpc: received message larger than max (17000000 vs. 16777216)", peerRuntime, ErrTooLarge, codes.ResourceExhausted},
		{"gRPC of the runtime: answer too large", codes.ResourceExhausted, "trying to send message larger than max (17000000 vs. 16777216)", peerRuntime, ErrTooLarge, codes.ResourceExhausted},
		{"disk full", codes.ResourceExhausted, "no space left on device", peerRuntime, nil, codes.ResourceExhausted},
		{"cancelled", codes.Canceled, "context canceled", peerTransport, context.Canceled, codes.Canceled},
		{"anything else", codes.Internal, "boom", peerRuntime, nil, codes.Internal},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := newOpError(operation{name: "Op", id: "x"}, classify(status.Error(c.code, c.text), c.from))
			for _, kind := range []error{ErrNotFound, ErrAlreadyExists, ErrRuntimeDown, ErrTooLarge, ErrUnimplemented, ErrMalformed, ErrClosed, context.DeadlineExceeded, context.Canceled} {
				if got, want := errors.Is(err, kind), errors.Is(c.want, kind); got != want {
					t.Errorf("errors.Is(%v, %v) is %v, want %v", err, kind, got, want)
				}
			}
			if got := status.Code(err); got != c.wantCode {
				t.Errorf("code is %v, want %v", got, c.wantCode)
			}
			if got := status.Convert(err).Message(); got != c.text {
				t.Errorf("status message is %q, want the runtime's own %q", got, c.text)
			}
			if got := status.Code(fmt.Errorf("sync pod: %w", err)); got != c.wantCode {
				t.Errorf("code of the wrapped error is %v, want %v", got, c.wantCode)
			}
		})
	}
}

func TestOpErrorText(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"kind", newOpError(operation{name: "StopContainer", id: "6eb7"}, classify(status.Error(codes.NotFound, "no such container"), peerRuntime)), "StopContainer 6eb7: not found: no such container"},
		{"no kind, no id", newOpError(operation{name: "ListContainers"}, classify(status.Error(codes.Internal, "boom"), peerRuntime)), "ListContainers: Internal: boom"},
		{"not from gRPC", newOpError(operation{name: "PullImage", id: "web"}, missing("image_ref")), "PullImage web: malformed answer of the container runtime: image_ref is missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.err.Error(); got != c.want {
				t.Errorf("text is %q, want %q", got, c.want)
			}
		})
	}
}

func TestOpErrorOfNothingIsNil(t *testing.T) {
	if err := newOpError(operation{name: "Op"}, nil); err != nil {
		t.Errorf("error is %v, want nil", err)
	}
}

func TestStatusOfErrorsThatAreNotFromGRPC(t *testing.T) {
	for _, c := range []struct {
		err  error
		want codes.Code
	}{
		{ErrClosed, codes.Canceled},
		{missing("id"), codes.Internal},
		{&ExitError{Code: 3}, codes.Unknown},
	} {
		if got := status.Code(newOpError(operation{name: "Op"}, c.err)); got != c.want {
			t.Errorf("code of %v is %v, want %v", c.err, got, c.want)
		}
	}
}
