package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"time"
)

const (
	// A follower looks after minPoll, then less and less often, up to maxPoll, until
	// there is something.
	minPoll = 5 * time.Millisecond
	maxPoll = 200 * time.Millisecond
	// askEvery is how often Options.Running is asked. The kubelet looks once a second.
	askEvery = time.Second
	// lateTime is how long a rotated file may still be written to: the runtime's writers
	// go over to the new file one by one.
	lateTime = time.Second
)

// Entries yields the entries of a log in the order of the files. It ends after the first
// error; that of ctx is among them. The Text of an entry is valid until the next one. A
// log that is not there is fs.ErrNotExist. Lines that are no entries are left out, and
// told to Options.Log.
func Entries(ctx context.Context, f File, opts Options) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		err := read(ctx, f, opts, func(e Entry) bool { return yield(e, nil) }, func() error { return nil })
		if err != nil && !errors.Is(err, errStop) {
			yield(Entry{}, err)
		}
	}
}

// errStop is the end of a read that the caller wants no more of.
var errStop = errors.New("stop")

// read hands entries to yield until it returns false, and calls idle when there are
// none at the moment.
func read(ctx context.Context, f File, opts Options, yield func(Entry) bool, idle func() error) error {
	if err := opts.validate(); err != nil {
		return err
	}
	d, err := openDir(f)
	if err != nil {
		return err
	}
	defer d.close()
	if opts.Tail != nil && !opts.Follow {
		// The log may grow faster than it is read.
		yield = atMost(*opts.Tail, yield)
	}
	r := &reader{dir: d, opts: opts, log: opts.logger().With("log", f.String()), yield: yield, idle: idle}
	defer r.close()
	if err := r.open(); err != nil {
		return err
	}
	return r.run(ctx)
}

// atMost hands entries to yield until there were n whole lines.
func atMost(n int64, yield func(Entry) bool) func(Entry) bool {
	return func(e Entry) bool {
		if n == 0 {
			return false
		}
		if !e.Partial {
			n--
		}
		return yield(e) && n > 0
	}
}

// reader reads one log.
type reader struct {
	dir   *dir
	opts  Options
	log   *slog.Logger
	yield func(Entry) bool
	idle  func() error

	// segments are to be read in this order. The last one is the newest.
	segments []*segment
	// known are the stamps of the rotated files that were there when the last segment was
	// opened: those that are older, or that segment itself.
	known map[string]bool
	// asked is when Options.Running was asked last.
	asked time.Time
}

func (r *reader) close() {
	for _, s := range r.segments {
		s.close()
	}
}

func (r *reader) run(ctx context.Context) error {
	r.asked = time.Now()
	wait := minPoll
	for last := false; ; {
		progress, err := r.drain(ctx)
		if err != nil {
			return err
		}
		if progress {
			wait = minPoll
			continue
		}
		if last || !r.opts.Follow {
			return r.finish()
		}
		if err := r.idle(); err != nil {
			return err
		}
		moved, err := r.advance()
		if err != nil {
			return err
		}
		if moved {
			continue
		}
		ended, err := r.ended(ctx)
		if err != nil {
			return err
		}
		if ended {
			last = true
			continue
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
		wait = min(2*wait, maxPoll)
	}
}

// drain reads all segments to their present ends, and lets go of those that are done.
func (r *reader) drain(ctx context.Context) (progress bool, err error) {
	for i := 0; i < len(r.segments); {
		s := r.segments[i]
		n, err := r.copy(ctx, s)
		if err != nil {
			return false, err
		}
		progress = progress || n > 0
		if i == len(r.segments)-1 || time.Now().Before(s.until) {
			i++
			continue
		}
		if err := r.emitTorn(s); err != nil {
			return false, err
		}
		s.close()
		r.segments = append(r.segments[:i], r.segments[i+1:]...)
	}
	return progress, nil
}

// checkEvery is after how many entries ctx is looked at.
const checkEvery = 1024

// copy reads a segment to its present end.
func (r *reader) copy(ctx context.Context, s *segment) (n int, err error) {
	for ; ; n++ {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return n, ctx.Err()
		}
		e, err := s.next(r.tellBad)
		switch {
		case errors.Is(err, io.EOF):
			return n, nil
		case err != nil && s.stamp != "":
			// What was rotated away must not keep the rest from being read.
			r.log.WarnContext(ctx, "rotated log file is damaged, going on with the next", "file", s.file.Name(), "error", err)
			return n, nil
		case err != nil:
			return n, fmt.Errorf("read log: %w", err)
		}
		if !r.opts.wants(e) {
			continue
		}
		if s.skip > 0 {
			if !e.Partial {
				s.skip--
			}
			continue
		}
		if e.Time.Before(r.opts.Since) {
			continue
		}
		if !r.yield(e) {
			return n, errStop
		}
	}
}

func (r *reader) tellBad(line []byte, err error) {
	const shown = 80
	r.log.Warn("line of the log is left out", "error", err, "line", string(line[:min(len(line), shown)]))
}

// finish hands on what the log ends with.
func (r *reader) finish() error {
	for _, s := range r.segments {
		if err := r.emitTorn(s); err != nil {
			return err
		}
	}
	return r.idle()
}

func (r *reader) emitTorn(s *segment) error {
	e, ok := s.torn(r.tellBad)
	if ok && r.opts.wants(e) && !e.Time.Before(r.opts.Since) && !r.yield(e) {
		return errStop
	}
	return nil
}

// ended reports whether nothing will be written any more.
func (r *reader) ended(ctx context.Context) (bool, error) {
	if time.Since(r.asked) < askEvery {
		return false, nil
	}
	r.asked = time.Now()
	folder, err := infoOf(r.dir.folder)
	if err != nil || folder.removed {
		return true, err
	}
	if r.opts.Running == nil {
		return false, nil
	}
	running, err := r.opts.Running(ctx)
	if err != nil {
		r.log.WarnContext(ctx, "asking whether the container runs", "error", err)
		return false, nil
	}
	return !running, nil
}

// advance looks whether the live file is another one by now, or begins anew.
func (r *reader) advance() (moved bool, err error) {
	live := r.segments[len(r.segments)-1]
	info, err := infoIn(r.dir.folder, r.dir.name)
	if errors.Is(err, fs.ErrNotExist) {
		// Between being renamed and reopened, or removed for good: Running will tell.
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for log: %w", err)
	}
	if info.id != live.id {
		return true, r.takeOver(live)
	}
	if info.size < live.lines.offset {
		r.log.Warn("log was cut while it was read, beginning anew")
		return true, live.rewind(0)
	}
	return false, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
