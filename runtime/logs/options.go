package logs

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// Options says what of a log to read. The zero value reads all of it, from the oldest
// rotated file on, and ends at its end.
type Options struct {
	// Stream leaves out the other stream; zero means both.
	Stream Stream
	// Since leaves out what is older; zero means nothing.
	Since time.Time
	// Tail is how many of the last lines to begin with. A line in pieces counts once.
	// Without Follow there are no more than that, even if the log grows meanwhile. Nil
	// means all, zero none.
	Tail *int64
	// LiveOnly leaves out rotated files, as the kubelet does. A follower still takes over
	// from the live file when that is rotated.
	LiveOnly bool
	// Follow goes on at the end of the log, until ctx ends, Running says so, or the
	// folder of the log is removed.
	Follow bool
	// Running is asked by a follower that has read everything, at most once a second,
	// whether the container still runs. After false the rest is read and the log ends.
	// An error counts as true, because a runtime may be away for a while. Nil means that
	// the container runs.
	Running func(context.Context) (bool, error)

	// Timestamps makes Copy put the time before each line.
	Timestamps bool
	// Limit is how many bytes Copy writes at most; zero means no limit.
	Limit int64

	// Log is told of lines that are no entries and of files that could not be read. Nil
	// means nobody.
	Log *slog.Logger
}

func (o Options) validate() error {
	switch {
	case o.Stream > Stderr:
		return fmt.Errorf("logs: Options.Stream is %d, want Both, Stdout or Stderr", o.Stream)
	case o.Tail != nil && *o.Tail < 0:
		return fmt.Errorf("logs: Options.Tail is %d lines, want 0 or more", *o.Tail)
	case o.Limit < 0:
		return fmt.Errorf("logs: Options.Limit is %d bytes, want 0 (no limit) or more", o.Limit)
	}
	return nil
}

func (o Options) logger() *slog.Logger {
	if o.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Log
}

// wants is the choice by stream.
func (o Options) wants(e Entry) bool { return o.Stream == Both || o.Stream == e.Stream }
