package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Journalctl is the Journal of systemd, by the command journalctl of PATH. Where that is not
// there it has nothing: services write files.
type Journalctl struct{}

var _ Journal = Journalctl{}

// ending is how long a command may take to end after it was told to.
const ending = time.Second

// Has implements Journal.
func (Journalctl) Has(ctx context.Context, service string) bool {
	c := exec.CommandContext(ctx, "journalctl", "--field", "_SYSTEMD_UNIT")
	c.WaitDelay = ending
	units, err := c.Output()
	return err == nil && slices.Contains(strings.Split(string(units), "\n"), service+".service")
}

// Copy implements Journal.
func (Journalctl) Copy(ctx context.Context, w io.Writer, q LogQuery) error {
	c := exec.CommandContext(ctx, "journalctl", journalArgs(q)...)
	c.WaitDelay = ending
	c.Stdout, c.Stderr = w, w
	err := c.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); ended && ctx.Err() == nil {
		return nil // what was wrong it has written, such as that there are no entries
	}
	return err
}

// journalArgs are the arguments of journalctl for a query
// (https://www.freedesktop.org/software/systemd/man/journalctl.html).
func journalArgs(q LogQuery) []string {
	const moment = "2006-01-02 15:04:05 UTC" // of systemd.time(7)
	args := []string{"--utc", "--no-pager", "--output=short-precise"}
	if !q.Since.IsZero() {
		args = append(args, "--since="+q.Since.UTC().Format(moment))
	}
	if !q.Until.IsZero() {
		args = append(args, "--until="+q.Until.UTC().Format(moment))
	}
	if q.Tail != nil {
		args = append(args, fmt.Sprintf("--lines=%d", *q.Tail))
	}
	for _, s := range q.Services {
		args = append(args, "--unit="+s)
	}
	if q.Pattern != "" {
		args = append(args, "--grep="+q.Pattern)
	}
	if q.Boot != nil {
		args = append(args, fmt.Sprintf("--boot=%d", *q.Boot))
	}
	return args
}
