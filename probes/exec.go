package probes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ExecFunc runs a command in a container and returns its exit code and its
// output, standard output and standard error together. timeout is what the
// container runtime is to be told, so that it kills the command; a runtime that
// counts whole seconds gets it rounded up. An error that is
// context.DeadlineExceeded, by errors.Is, says that the command was still running
// after the timeout; any other error says that there is no answer.
type ExecFunc func(ctx context.Context, containerID string, command []string, timeout time.Duration) (exitCode int, output []byte, err error)

// ExecSyncer is the part of a CRI client that runs commands. The clients of
// package runtime and of k8s.io/cri-client have it.
type ExecSyncer interface {
	// ExecSync returns an error with a method ExitStatus() int for a command that
	// ended with another exit code than zero.
	ExecSync(ctx context.Context, containerID string, command []string, timeout time.Duration) (stdout, stderr []byte, err error)
}

// ExecIn returns an ExecFunc that runs commands by a CRI client.
func ExecIn(c ExecSyncer) ExecFunc {
	return func(ctx context.Context, containerID string, command []string, timeout time.Duration) (int, []byte, error) {
		stdout, stderr, err := c.ExecSync(ctx, containerID, command, timeout)
		output := slices.Concat(head(stdout), head(stderr))
		var exit interface{ ExitStatus() int }
		if errors.As(err, &exit) {
			return exit.ExitStatus(), output, nil
		}
		return 0, output, err
	}
}

// head returns the part of an output that may be kept.
func head(b []byte) []byte { return b[:min(len(b), MaxOutput+1)] }

// execPatience is how long after its timeout a command may take to be reported as
// over, before the caller gives up on the runtime. The kubelet waits as long.
const execPatience = 2 * time.Minute

// Exec probes a container by running a command in it: exit code 0 is a Success,
// any other a Failure.
type Exec struct {
	// Run runs the command; required.
	Run ExecFunc
	// ContainerID is passed to Run.
	ContainerID string
	// Command is the program with its arguments; required. No shell is involved.
	Command []string
}

// Probe makes one attempt that takes as long as ctx allows, DefaultTimeout when
// ctx has no deadline.
func (e Exec) Probe(ctx context.Context) (Result, error) {
	timeout := DefaultTimeout
	deadline, ok := ctx.Deadline()
	if ok {
		timeout = time.Until(deadline)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return e.run(ctx, timeout)
}

// ProbeTimeout makes one attempt and returns when the command is over or the
// runtime has not answered for two minutes after the timeout. An exit code that
// comes up to 0.9 s after the timeout counts: that the command had its time is up to
// the runtime, which counts from when the command has been started. One that comes
// later is not looked at.
func (e Exec) ProbeTimeout(ctx context.Context, timeout time.Duration) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout+execPatience)
	defer cancel()
	return e.run(ctx, timeout)
}

// TimedOut returns the Failure of a command that ran longer than timeout.
func (e Exec) TimedOut(timeout time.Duration) Result {
	command := clip(strings.Join(e.Command, " "), MaxOutput/2)
	return Failed("command timed out: %q timed out after %s", command, timeout)
}

func (e Exec) run(ctx context.Context, timeout time.Duration) (Result, error) {
	if e.Run == nil || len(e.Command) == 0 {
		return Result{}, errors.New("exec probe needs both a command and something to run it with")
	}
	began := time.Now()
	code, output, err := e.Run(ctx, e.ContainerID, e.Command, timeout)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return e.TimedOut(timeout), nil
	case err != nil:
		return Result{}, fmt.Errorf("run %q in the container: %w", e.Command, err)
	case time.Since(began) > timeout+execSlack:
		return e.TimedOut(timeout), nil
	case code != 0 && len(output) == 0:
		return Failed("%q exited with code %d and no output", e.Command, code), nil
	case code != 0:
		return Result{Outcome: Failure, Message: clip(output, MaxOutput)}, nil
	}
	return Result{Outcome: Success, Message: clip(output, MaxOutput)}, nil
}

// execSlack is what a runtime may take, on a busy node, for what is no part of a
// command: to start the process and to clean up after it. It is below a second so that
// with the usual timeout of one a hung command is a failure within two.
const execSlack = 900 * time.Millisecond
