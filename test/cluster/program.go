package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nodekit-go/nodekit/test/testnode"
)

const (
	// startLimit is how long a program may take until it answers. It takes a few
	// seconds; the rest is for machines with much else to do.
	startLimit = 2 * time.Minute
	// stopLimit is how long a program may take to end after SIGTERM.
	stopLimit = 30 * time.Second
)

// Program is a part of the cluster that can be ended and started again. Its methods
// may be called from several goroutines; they run one after the other.
type Program struct {
	name string
	// launch starts the program.
	launch func(context.Context) (*testnode.Process, error)
	// ready answers nil when the program serves.
	ready func(context.Context) error

	mu      sync.Mutex // Held while a method runs.
	process *testnode.Process
}

// Name returns what the program is called in messages and by its log.
func (p *Program) Name() string { return p.name }

// Start starts the program and waits until it serves. It does nothing when the
// program runs.
func (p *Program) Start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runs() {
		return nil
	}
	process, err := p.launch(ctx)
	if err != nil {
		return err
	}
	p.process = process
	err = testnode.Eventually(ctx, startLimit, p.name+" serves", func(ctx context.Context) error {
		if process.Exited() {
			return testnode.Fatal(errors.New("it ended at its start"))
		}
		return p.ready(ctx)
	})
	if err != nil {
		return fmt.Errorf("start %s (log: %s): %w", p.name, process.Log, err)
	}
	return nil
}

// Stop asks the program to end, by SIGTERM, and kills it when that takes too long.
// When it returns the program is gone and its port is free. It does nothing when the
// program does not run. How the program ended is not judged.
func (p *Program) Stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.runs() {
		return nil
	}
	if err := p.process.Terminate(stopLimit); err != nil && !p.process.Exited() {
		return p.process.Kill()
	}
	return nil
}

// Kill ends the program by SIGKILL, and returns when it is gone. It does nothing when
// the program does not run.
func (p *Program) Kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.runs() {
		return nil
	}
	return p.process.Kill()
}

// Running reports whether the program runs.
func (p *Program) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runs()
}

// PID returns the id of the program's process, 0 when it does not run.
func (p *Program) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.runs() {
		return 0
	}
	return p.process.PID()
}

// Log returns the file with all that the program printed in all its lives, empty
// before its first.
func (p *Program) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil {
		return ""
	}
	return p.process.Log
}

func (p *Program) runs() bool { return p.process != nil && !p.process.Exited() }
