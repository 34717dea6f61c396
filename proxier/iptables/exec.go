package iptables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/nodekit-go/nodekit/proxier/internal/netns"
)

// Command is one run of a program of iptables.
type Command struct {
	// Name is the program, such as "ip6tables-nft-restore".
	Name string
	Args []string
	// Stdin is what the program reads; nil means nothing.
	Stdin []byte
}

// Result is what a program that ran has left.
type Result struct {
	// Status is its exit status; 0 is success.
	Status         int
	Stdout, Stderr []byte
}

// Exec runs programs of iptables. It is safe for concurrent use: both families are
// programmed at once, and Watch and CleanOthers run beside. Run must end them when ctx ends. An error says that the program did not run, or did
// not come to its end; one that is not there is an error that wraps exec.ErrNotFound.
type Exec interface {
	Run(ctx context.Context, c Command) (Result, error)
}

// hostExec runs the programs of the host, in a network namespace.
type hostExec struct {
	netns string // empty means that of the process
	// env is what the environment has beside that of the process.
	env []string
}

// patience is how long the pipes of a program that was killed are read.
const patience = 5 * time.Second

// Run implements Exec.
func (h hostExec) Run(ctx context.Context, c Command) (Result, error) {
	cmd := exec.CommandContext(ctx, c.Name, c.Args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, &stderr, patience
	if h.env != nil {
		cmd.Env = append(cmd.Environ(), h.env...)
	}
	if c.Stdin != nil {
		cmd.Stdin = bytes.NewReader(c.Stdin)
	}
	err := netns.Do(h.netns, cmd.Start)
	if err == nil {
		err = cmd.Wait()
	}
	r := Result{Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}
	if ended, ok := errors.AsType[*exec.ExitError](err); ok && ended.Exited() {
		r.Status = ended.ExitCode()
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("run %s: %w", c.Name, errors.Join(err, context.Cause(ctx)))
	}
	return r, nil
}
