package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

// maxLooks is how often the files are looked at for a moment in which none is rotated.
const maxLooks = 100

// view is the files of a log at one moment.
type view struct {
	// stamps are all rotated files, oldest first.
	stamps []string
	// rotated are the wanted ones of them, open.
	rotated []*segment
	// live is nil between a rename and the reopening.
	live *segment
}

func (v *view) close() {
	for _, s := range v.rotated {
		s.close()
	}
	if v.live != nil {
		v.live.close()
	}
}

// look opens the live file and the rotated ones that want takes.
func (r *reader) look(want func(stamp string) bool) (*view, error) {
	for range maxLooks {
		v, err := r.lookOnce(want)
		if err != nil {
			return nil, err
		}
		// Nothing was rotated since the list was made, so all of it belongs together.
		stamps, err := r.dir.rotated()
		if err != nil {
			v.close()
			return nil, err
		}
		if slices.Equal(stamps, v.stamps) {
			return v, nil
		}
		v.close()
	}
	return nil, fmt.Errorf("look for log: it was rotated during each of %d looks", maxLooks)
}

func (r *reader) lookOnce(want func(stamp string) bool) (*view, error) {
	stamps, err := r.dir.rotated()
	if err != nil {
		return nil, err
	}
	v := &view{stamps: stamps}
	for _, stamp := range stamps {
		if !want(stamp) {
			continue
		}
		s, err := r.dir.openSegment(stamp)
		if err != nil {
			// It was removed just now, or is no log: its neighbours are.
			r.log.Warn("rotated log file cannot be read, going on with the next", "error", err)
			continue
		}
		v.rotated = append(v.rotated, s)
	}
	v.live, err = r.dir.openSegment("")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		v.close()
		return nil, err
	}
	return v, nil
}

// open decides where to begin.
func (r *reader) open() error {
	want := func(string) bool { return !r.opts.LiveOnly }
	v, err := r.look(want)
	if err != nil {
		return err
	}
	r.known = make(map[string]bool)
	for _, stamp := range v.stamps {
		r.known[stamp] = true
	}
	r.segments = v.rotated
	if v.live != nil {
		r.segments = append(r.segments, v.live)
	}
	if len(r.segments) == 0 {
		return fmt.Errorf("open log %s: %w", r.dir.path(r.dir.name), fs.ErrNotExist)
	}
	if n := len(r.segments); n > 1 {
		// It may have been rotated just now.
		r.segments[n-2].until = time.Now().Add(lateTime)
	}
	r.dropOld()
	return r.dropBeforeTail()
}

// dropOld lets go of files that end before Options.Since.
func (r *reader) dropOld() {
	for len(r.segments) > 1 && r.segments[0].modified.Before(r.opts.Since) {
		r.segments[0].close()
		r.segments = r.segments[1:]
	}
}

// dropBeforeTail lets go of what comes before the last lines.
func (r *reader) dropBeforeTail() error {
	if r.opts.Tail == nil {
		return nil
	}
	left := *r.opts.Tail
	for i, s := range slices.Backward(r.segments) {
		found, err := s.lastLines(left, r.opts.wants)
		if err != nil && s.stamp == "" {
			return fmt.Errorf("look for the last lines of the log: %w", err)
		}
		if err != nil {
			r.log.Warn("rotated log file is damaged, going on without it", "file", s.file.Name(), "error", err)
		}
		if left -= found; left > 0 && err == nil {
			continue
		}
		from := i
		if err != nil {
			from = i + 1
		}
		for _, old := range r.segments[:from] {
			old.close()
		}
		r.segments = r.segments[from:]
		return nil
	}
	return nil
}

// takeOver puts what came after the live segment behind it.
func (r *reader) takeOver(live *segment) error {
	v, err := r.look(func(stamp string) bool { return !r.known[stamp] })
	if err != nil {
		return err
	}
	if v.live == nil || v.live.id == live.id {
		// It is on its way.
		v.close()
		return nil
	}
	newer := v.rotated
	for i, s := range v.rotated {
		same, err := live.isSame(s)
		if err != nil {
			r.log.Warn("rotated log file is damaged, going on with the next", "file", s.file.Name(), "error", err)
			continue
		}
		if same {
			for _, old := range v.rotated[:i+1] {
				old.close()
			}
			newer = v.rotated[i+1:]
			break
		}
	}
	r.segments = append(append(r.segments, newer...), v.live)
	// Of the files that are not the live one only the newest may still be written to.
	r.segments[len(r.segments)-2].until = time.Now().Add(lateTime)
	for _, stamp := range v.stamps {
		r.known[stamp] = true
	}
	return nil
}
