// Package runtime is a client of a container runtime over CRI v1: sandboxes,
// containers, images, statistics and events, with deadlines and typed errors.
//
// It is not a container runtime, holds no state about pods, pulls nothing by
// itself and decides nothing: that is for podworker and others. It does not speak
// older CRI versions. The name clashes with the standard library's package runtime
// on purpose; import that one as goruntime where both are needed.
//
// The smallest use:
//
//	c, err := runtime.Dial(ctx, "unix:///run/containerd/containerd.sock", runtime.Config{})
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	now, err := c.Snapshot(ctx)
//
// The methods of Client have the shapes of k8s.io/cri-api/pkg/apis, so that a
// consumer's small interface fits this client and others. Every error is an
// *OpError; errors.Is tells ErrNotFound, ErrAlreadyExists, ErrRuntimeDown,
// ErrTooLarge, ErrUnimplemented, ErrMalformed and context.DeadlineExceeded apart,
// and status.Code of google.golang.org/grpc/status gives the matching code.
//
// Snapshot and Diff answer which pods changed since the last look, and why. Events
// are only hints of when to look; Watch gives them over restarts of the runtime, and
// says when some may be missing.
//
// A Client is safe for use by many goroutines. A hung call delays no other call.
// The socket of a runtime usually belongs to root, so the caller must be root.
package runtime
