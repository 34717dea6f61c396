package logs

import (
	"bytes"
	"errors"
	"io"
)

// lastLines leaves out all but the last n lines of the segment that wanted takes, and
// returns how many it found: fewer than n if the segment has fewer.
func (s *segment) lastLines(n int64, wanted func(Entry) bool) (int64, error) {
	if s.compressed {
		return s.lastLinesForward(n, wanted)
	}
	info, err := infoOf(s.file)
	if err != nil {
		return 0, err
	}
	t := tailer{file: s.file, n: n, wanted: wanted}
	offset, err := t.find(info.size)
	if err != nil {
		return 0, err
	}
	return min(t.found, n), s.rewind(offset)
}

// lastLinesForward reads a compressed file twice, because it has no way back.
func (s *segment) lastLinesForward(n int64, wanted func(Entry) bool) (int64, error) {
	var total int64
	for {
		e, err := s.next(func([]byte, error) {})
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
		if !e.Partial && wanted(e) {
			total++
		}
	}
	s.skip = max(total-n, 0)
	return min(total, n), s.rewind(0)
}

// tailer looks for the last lines of a file, from its end.
type tailer struct {
	file   io.ReaderAt
	n      int64
	wanted func(Entry) bool
	// found counts lines so far.
	found int64
	// seen says that there was a wanted entry.
	seen bool
}

// find returns the offset at which the last n lines begin; zero if there are no more.
// What follows the last newline is no line yet.
func (t *tailer) find(size int64) (int64, error) {
	// tail is the file from start on, to the newline at lineEnd, or a part of that.
	var tail []byte
	start, lineEnd := size, int64(-1)
	for {
		for i := bytes.LastIndexByte(tail, '\n'); i >= 0; i = bytes.LastIndexByte(tail, '\n') {
			if lineEnd >= 0 && t.isTooMany(tail[i+1:]) {
				return lineEnd + 1, nil
			}
			lineEnd = start + int64(i)
			tail = tail[:i]
		}
		if start == 0 {
			if lineEnd >= 0 && t.isTooMany(tail) {
				return lineEnd + 1, nil
			}
			return 0, nil
		}
		if len(tail) >= maxLine {
			// The beginning of such a line tells enough.
			tail = nil
		}
		n := min(start, readSize)
		start -= n
		block := make([]byte, n, n+int64(len(tail)))
		if _, err := t.file.ReadAt(block, start); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		tail = append(block, tail...)
	}
}

// isTooMany counts a line and reports whether what is wanted begins after it.
func (t *tailer) isTooMany(line []byte) bool {
	e, err := Parse(line)
	if err != nil || !t.wanted(e) {
		return false
	}
	// The last line counts also when it goes on.
	if !e.Partial || !t.seen {
		t.found++
	}
	t.seen = true
	return t.found > t.n
}
