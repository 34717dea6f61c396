package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/nodekit-go/nodekit/probes"
)

// runHere is a probes.ExecFunc that runs commands as processes beside this one. At
// the timeout the command and everything it started are killed.
func runHere(ctx context.Context, _ string, command []string, timeout time.Duration) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var out capped
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	// Whoever left the process group may hold the output open for as long.
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		return 0, out.Bytes(), fmt.Errorf("run %q: %w", command[0], ctx.Err())
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), out.Bytes(), nil
	}
	return 0, out.Bytes(), err
}

// capped keeps the beginning of what is written to it.
type capped struct{ bytes.Buffer }

// Write takes all and keeps some.
func (c *capped) Write(p []byte) (int, error) {
	if room := probes.MaxOutput + 1 - c.Len(); room > 0 {
		c.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
