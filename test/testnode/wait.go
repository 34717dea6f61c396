package testnode

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pollPeriod is how often Eventually looks.
const pollPeriod = 50 * time.Millisecond

// Eventually calls check until it returns nil, and gives up after the time
// limit, when ctx ends, or when check returns an error made by [Fatal]. The error
// names what was waited for and holds check's last answer.
func Eventually(ctx context.Context, limit time.Duration, what string, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if fatal, ok := errors.AsType[fatalError](err); ok {
			return fmt.Errorf("wait until %s: %w", what, fatal.error)
		}
		if last == nil || ctx.Err() == nil {
			last = err // An error of the last call may only say that time is up.
		}
		if pause(ctx, pollPeriod) != nil {
			return fmt.Errorf("wait until %s: not within %s: %w", what, limit, last)
		}
	}
}

type fatalError struct{ error }

// Fatal marks an error after which waiting is pointless.
func Fatal(err error) error { return fatalError{err} }
