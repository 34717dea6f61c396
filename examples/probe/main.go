// Command probe runs one probe, described by flags or by a pod file, and prints each
// result.
//
//	probe --http http://127.0.0.1:8080/healthz --count 3
//	probe --pod pod.yaml --container app --kind liveness --host 10.244.1.7 -o json
//	probe --period 2s -- test -e /tmp/healthy
//
// It ends after --count attempts, when a liveness or startup probe has come to its
// result, or with a signal. The exit code is 0 if the value of the probe is success
// then, 1 if it is not, and 2 if the probe could not be run.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/nodekit-go/nodekit/probes"
)

// The exit codes.
const (
	healthy   = 0
	unhealthy = 1
	unusable  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, pflag.ErrHelp) {
		return healthy
	}
	var value probes.Outcome
	if err == nil {
		value, err = probe(ctx, o, stdout)
	}
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "probe:", err)
		return unusable
	case value != probes.Success:
		return unhealthy
	}
	return healthy
}

// probe makes attempts until there have been enough, and returns the value of the
// probe.
func probe(ctx context.Context, o *options, out io.Writer) (probes.Outcome, error) {
	clients, done, err := o.clients(ctx)
	if err != nil {
		return probes.Unknown, err
	}
	defer done()
	container, err := o.build(clients)
	if err != nil {
		return probes.Unknown, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &session{options: o, printer: newPrinter(o.output, out), enough: cancel}
	s.engine, err = probes.New(probes.Config{Hooks: probes.Hooks{Attempted: s.attempted}})
	if err != nil {
		return probes.Unknown, err
	}
	if err := s.engine.Add(container); err != nil {
		return probes.Unknown, err
	}
	if err := s.engine.Run(ctx); err != nil {
		return probes.Unknown, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value, s.err
}

// session is a probe under way.
type session struct {
	*options
	engine  *probes.Engine
	printer printer
	enough  func()

	mu       sync.Mutex // guards what follows
	attempts int
	value    probes.Outcome
	err      error
}

// attempted prints an attempt, and ends the session after the last.
func (s *session) attempted(a probes.Attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status, ok := s.engine.Status(a.Ref.ID)
	if !ok || s.err != nil || s.count > 0 && s.attempts == s.count {
		return
	}
	p := status.Probes[0]
	s.attempts++
	s.value = p.Value
	s.err = s.printer.print(a, p.Value)
	if s.err != nil || p.Held || s.attempts == s.count {
		s.enough()
	}
}
