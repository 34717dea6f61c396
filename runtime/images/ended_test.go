package images

import (
	"context"
	"errors"
	"testing"
	"time"
)

// late is a context whose deadline has passed and that does not know it yet.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Now(), true }

func TestEnded(t *testing.T) {
	if err := ended(t.Context()); err != nil {
		t.Errorf("a context at work has ended with %v", err)
	}
	if err := ended(late{t.Context()}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("past its deadline it has ended with %v, want %v", err, context.DeadlineExceeded)
	}
	why := errors.New("the pod is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if err := ended(ctx); !errors.Is(err, why) {
		t.Errorf("it has ended with %v, want %v", err, why)
	}
}
