package proxier

import (
	"context"
	"log/slog"
	"time"
)

// Sweeper is a Backend that cannot always remove at once what it has replaced. The
// Proxier calls it like the other methods, one at a time.
type Sweeper interface {
	// Sweep removes what earlier calls have left behind, if anything. After an error it
	// is called again.
	Sweep(ctx context.Context) error
}

// broom calls a Sweeper after each Reset until nothing is left. It is used by the
// goroutine of Run alone.
type broom struct {
	sweeper  Sweeper // nil if the Backend is none
	min, max time.Duration
	log      *slog.Logger
	// wait is the pause before the next call, due when it is over; nil if nothing is left.
	wait time.Duration
	due  <-chan time.Time
}

func newBroom(b Backend, cfg Config) broom {
	s, _ := b.(Sweeper)
	return broom{sweeper: s, min: cfg.MinRetry, max: cfg.MaxRetry, log: cfg.Log}
}

// begin has the sweeper called soon.
func (b *broom) begin() {
	if b.sweeper != nil {
		b.wait = b.min
		b.due = time.After(b.wait)
	}
}

// sweep calls the sweeper, and again later if something is left.
func (b *broom) sweep(ctx context.Context) {
	b.due = nil
	err := b.sweeper.Sweep(ctx)
	if err == nil || ctx.Err() != nil {
		return
	}
	b.wait = min(2*b.wait, b.max)
	b.due = time.After(b.wait)
	b.log.Warn("what was replaced is still there", "err", err, "retry", b.wait)
}
