package machine

import (
	"context"
	"errors"
	"log/slog"

	"golang.org/x/sync/errgroup"
)

// Config configures a Machine. The zero value sets the kernel's settings and watches for
// kills.
type Config struct {
	// FailSwapOn has Prepare fail on a machine that swaps: failSwapOn of a kubelet.
	FailSwapOn bool
	// Kernel says what is done about kernel settings that a kubelet wants otherwise.
	Kernel KernelMode
	// Chains keeps the chains of iptables: makeIPTablesUtilChains of a kubelet.
	Chains bool
	// OOMScoreAdj protects this process when memory runs short, from -1000 to 1000; nil: as it
	// is.
	OOMScoreAdj *int32
	// MaxOpenFiles is how many files this process may open; 0: as it is.
	MaxOpenFiles uint64
	// Proc is where proc is mounted; empty: /proc.
	Proc string
	// Kmsg is the kernel's log; empty: /dev/kmsg.
	Kmsg string
	// Log gets what cannot be done; nil discards.
	Log *slog.Logger
}

// Machine is the machine that a kubelet runs on.
type Machine struct{ cfg Config }

// New returns a Machine. It does nothing yet.
func New(cfg Config) *Machine {
	if cfg.Proc == "" {
		cfg.Proc = "/proc"
	}
	if cfg.Kmsg == "" {
		cfg.Kmsg = "/dev/kmsg"
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Machine{cfg: cfg}
}

// Prepare sets the kernel up, and what it knows of this process. The error says why a kubelet must not start: the machine
// swaps, or its kernel settings are wrong and protected.
func (m *Machine) Prepare() error {
	if err := errors.Join(m.checkSwap(), m.tune()); err != nil {
		return err
	}
	m.prepareProcess()
	return nil
}

// Tell tells an event of the Node.
type Tell func(eventType, reason, message string)

// Run watches the machine until ctx ends. What cannot be watched is logged once, and is no
// error.
func (m *Machine) Run(ctx context.Context, tell Tell) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return m.watchKills(ctx, tell) })
	g.Go(func() error { return m.keepChains(ctx) })
	return g.Wait()
}
