package runtime

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The kinds of failure that callers tell apart with errors.Is. A deadline that
// passed is context.DeadlineExceeded and a cancelled call is context.Canceled,
// whether the client or the runtime noticed it.
var (
	// ErrNotFound means that the runtime knows no sandbox, container or image of
	// that name or id.
	ErrNotFound = errors.New("not found")
	// ErrAlreadyExists means that the name is taken, also by a call that an earlier
	// deadline cut off and that the runtime still works on or finished since.
	ErrAlreadyExists = errors.New("already exists")
	// ErrRuntimeDown means that nothing was heard from the runtime, or that it is only
	// starting. A call that changes something may or may not have been carried out.
	ErrRuntimeDown = errors.New("container runtime is down")
	// ErrTooLarge means that an answer is larger than Config.MaxMessageSize or than
	// the runtime's own limit. What it would have said is unknown.
	ErrTooLarge = errors.New("message is too large")
	// ErrUnimplemented means that the runtime does not have this call.
	ErrUnimplemented = errors.New("not implemented by the container runtime")
	// ErrMalformed means that an answer lacks a field that CRI requires.
	ErrMalformed = errors.New("malformed answer of the container runtime")
	// ErrClosed means that the Client was closed.
	ErrClosed = errors.New("client is closed")
)

// OpError is the error of every call of a Client.
type OpError struct {
	// Op is the name of the RPC, such as "StopContainer".
	Op string
	// ID is what the call was about: an id, a pod's or an image's name. It may be
	// empty.
	ID string
	// Err is the cause. It is, or unwraps to, one of the kinds above where one
	// applies.
	Err error
}

// Error says what was tried on what and why it did not work.
func (e *OpError) Error() string {
	if e.ID == "" {
		return e.Op + ": " + e.Err.Error()
	}
	return e.Op + " " + e.ID + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *OpError) Unwrap() error { return e.Err }

// GRPCStatus lets google.golang.org/grpc/status tell the code and the runtime's
// own message, so that code which does not import this package can classify. The
// code follows the kind: a reserved name is AlreadyExists also when the runtime
// reported it as Unknown.
func (e *OpError) GRPCStatus() *status.Status {
	if se, ok := errors.AsType[*statusError](e.Err); ok {
		return se.status
	}
	return status.New(codeOf(e.Err), e.Err.Error())
}

// newOpError returns nil for a nil err.
func newOpError(o operation, err error) error {
	if err == nil {
		return nil
	}
	return &OpError{Op: o.name, ID: o.id, Err: err}
}

// statusError is a failure reported by gRPC, with its kind if it has one.
type statusError struct {
	kind   error
	status *status.Status
}

func (e *statusError) Error() string {
	if e.kind == nil {
		return e.status.Code().String() + ": " + e.status.Message()
	}
	return e.kind.Error() + ": " + e.status.Message()
}

func (e *statusError) Unwrap() error { return e.kind }

// GRPCStatus is what status.Convert asks for.
func (e *statusError) GRPCStatus() *status.Status { return e.status }

// peer says who made up the status of a failed call.
type peer uint8

const (
	// peerTransport is gRPC in this process: nothing came from the runtime.
	peerTransport peer = iota
	// peerRuntime is the runtime.
	peerRuntime
)

// classify turns the error of a gRPC call into a *statusError. It is the one place
// that reads the text of foreign errors.
func classify(err error, from peer) error {
	st := status.Convert(err)
	kind := kindOf(st.Code())
	if from == peerRuntime && st.Code() == codes.Unavailable {
		kind = nil
	}
	if kind == nil {
		kind = kindOfText(st.Code(), st.Message())
	}
	if code := codeOf(kind); kind != nil && code != st.Code() {
		st = status.New(code, st.Message())
	}
	return &statusError{kind: kind, status: st}
}

// kindOf is the kind that a gRPC code alone stands for; nil if it stands for none.
func kindOf(code codes.Code) error {
	switch code {
	case codes.NotFound:
		return ErrNotFound
	case codes.AlreadyExists:
		return ErrAlreadyExists
	case codes.Unavailable:
		return ErrRuntimeDown
	case codes.Unimplemented:
		return ErrUnimplemented
	case codes.DeadlineExceeded:
		return context.DeadlineExceeded
	case codes.Canceled:
		return context.Canceled
	default:
		return nil
	}
}

// kindOfText is the kind of a failure whose code says too little.
func kindOfText(code codes.Code, text string) error {
	switch code {
	case codes.ResourceExhausted:
		// gRPC on either side; the runtime may also mean a full disk.
		if strings.Contains(text, "larger than max") {
			return ErrTooLarge
		}
	case codes.Unavailable:
		// containerd from 2.0, between opening its socket and having read its state.
		if strings.Contains(text, "server is not initialized yet") {
			return ErrRuntimeDown
		}
	case codes.FailedPrecondition:
		// containerd from 2.x; see below.
		if isReserved(text) {
			return ErrAlreadyExists
		}
	case codes.Unknown:
		switch {
		case strings.Contains(text, "server is not initialized yet"):
			// containerd before 2.0.
			return ErrRuntimeDown
		case isReserved(text):
			return ErrAlreadyExists
		case strings.HasPrefix(text, "could not find container "), strings.HasPrefix(text, "could not find pod "),
			strings.HasPrefix(text, "container with ID starting with "):
			// CRI-O, where an id was removed between two steps of a call.
			return ErrNotFound
		}
	}
	return nil
}

// isReserved finds what containerd says, failed to reserve sandbox name "n": name "n" is
// reserved for "id", and CRI-O, which leaves out the id.
func isReserved(text string) bool {
	return strings.Contains(text, "is reserved for") || strings.Contains(text, "name is reserved")
}

// codeOf is the gRPC code of a kind; Unknown for an error that is no kind.
func codeOf(err error) codes.Code {
	for _, k := range []struct {
		kind error
		code codes.Code
	}{
		{ErrNotFound, codes.NotFound},
		{ErrAlreadyExists, codes.AlreadyExists},
		{ErrRuntimeDown, codes.Unavailable},
		{ErrTooLarge, codes.ResourceExhausted},
		{ErrUnimplemented, codes.Unimplemented},
		{ErrMalformed, codes.Internal},
		{ErrClosed, codes.Canceled},
		{context.DeadlineExceeded, codes.DeadlineExceeded},
		{context.Canceled, codes.Canceled},
	} {
		if errors.Is(err, k.kind) {
			return k.code
		}
	}
	return codes.Unknown
}
