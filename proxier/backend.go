package proxier

import (
	"context"
	"errors"
)

// ErrNotSupported says that the kernel or the host lacks what a Backend needs, so that another
// Backend may do. An error of a Backend wraps it then, and io/fs.ErrPermission when the
// process lacks a privilege, which no other Backend needs less of.
var ErrNotSupported = errors.New("not supported here")

// Backend programs a State into the kernel. The Proxier calls it from one
// goroutine at a time, starts with Reset, and goes on with Apply.
//
// Apply and Reset return nil only when the whole input is in force. After an
// error of Apply the caller does not know what is in force: it keeps the input
// and calls Reset with the whole State.
type Backend interface {
	// Apply changes what is in force by d. Cost is proportional to d. Removing an
	// unknown key is not an error; updating one with an equal value is a no-op.
	Apply(ctx context.Context, d Delta) error
	// Reset makes s the state in force, whatever was there before: a cold start,
	// the rest of an earlier process, or drift. Traffic of unchanged ServicePorts
	// is not interrupted.
	Reset(ctx context.Context, s *State) error
	// Cleanup removes everything Apply and Reset may have made, also by an earlier
	// process. Nothing there is not an error.
	Cleanup(ctx context.Context) error
}
