package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nodekit-go/nodekit/test/conformance"
)

// loadPeriod is how often the load is looked at. The kernel averages it over a minute.
// stretchPeriod is how often the time is told that has gone by: a run that is killed loses
// no more than that.
const (
	loadPeriod    = 15 * time.Second
	stretchPeriod = 30 * time.Second
)

// clock tells how long a suite ran, and the machine's load meanwhile.
type clock struct {
	procs int
	// add takes the time since it was last called.
	add func(conformance.Stretch) error
	// load is the machine's load now; not ok where the kernel tells of none.
	load func() (load float64, ok bool)
}

// start runs the clock until the function that it returns is called, which returns what
// went wrong.
func (c clock) start(ctx context.Context) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	result := make(chan error, 1)
	go func() { result <- c.run(ctx) }()
	return func() error {
		cancel()
		return <-result
	}
}

func (c clock) run(ctx context.Context) error {
	tick := time.NewTicker(loadPeriod)
	defer tick.Stop()
	var errs error
	for {
		errs = errors.Join(errs, c.stretch(ctx, tick.C))
		if ctx.Err() != nil {
			return errs
		}
	}
}

// stretch waits for the end of a stretch, or of ctx, and tells of it.
func (c clock) stretch(ctx context.Context, tick <-chan time.Time) error {
	began, sum, samples := time.Now(), 0.0, 0
	look := func() {
		if load, ok := c.load(); ok {
			sum += load
			samples++
		}
	}
	for look(); ctx.Err() == nil && time.Since(began) < stretchPeriod; {
		select {
		case <-tick:
			look()
		case <-ctx.Done():
		}
	}
	return c.add(conformance.Stretch{Wall: time.Since(began), Load: sum / float64(max(1, samples)), Procs: c.procs})
}

// loadAverage is the kernel's average of the last minute; see proc_loadavg(5).
func loadAverage() (load float64, ok bool) {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, false
	}
	_, err = fmt.Sscan(string(data), &load)
	return load, err == nil
}
