package logs

import (
	"bytes"
	"errors"
	"io"
)

// maxLine is the longest line that is handed on in one piece. containerd and CRI-O cut
// lines at 16 KiB unless they are told otherwise.
const maxLine = 1 << 20

// readSize is how much is read at once.
const readSize = 64 << 10

// lines cuts what a file holds into lines. The end of the file is not the end of it:
// after io.EOF it goes on where it was, if the file has grown.
type lines struct {
	src io.Reader
	// buf[start:end] is what was read and not handed on.
	buf        []byte
	start, end int
	// searched is how much of that is known to hold no newline.
	searched int
	// offset is where in the file buf[start] is.
	offset int64
}

// next returns the next line without its end, and whether its end was seen: a line over
// maxLine comes in pieces. It is io.EOF if there is no whole line. The line is valid
// until the next call.
func (l *lines) next() (line []byte, whole bool, err error) {
	for {
		if i := bytes.IndexByte(l.buf[l.start+l.searched:l.end], '\n'); i >= 0 {
			n := l.searched + i
			line = l.buf[l.start : l.start+n]
			l.advance(n + 1)
			return line, true, nil
		}
		l.searched = l.end - l.start
		if l.searched >= maxLine {
			return l.rest(), false, nil
		}
		if err := l.fill(); err != nil {
			return nil, false, err
		}
	}
}

// rest takes what is there without a newline.
func (l *lines) rest() []byte {
	line := l.buf[l.start:l.end]
	l.advance(len(line))
	return line
}

func (l *lines) advance(n int) {
	l.start += n
	l.offset += int64(n)
	l.searched = 0
}

// fill reads once.
func (l *lines) fill() error {
	if l.start > 0 && cap(l.buf)-l.end < readSize {
		l.end = copy(l.buf, l.buf[l.start:l.end])
		l.start = 0
	}
	if len(l.buf)-l.end < readSize {
		grown := make([]byte, max(2*len(l.buf), 2*readSize))
		copy(grown, l.buf[:l.end])
		l.buf = grown
	}
	n, err := l.src.Read(l.buf[l.end:])
	l.end += n
	switch {
	case n > 0:
		return nil
	case err == nil:
		return io.ErrNoProgress
	case errors.Is(err, io.ErrUnexpectedEOF):
		// A compressed file that was cut: what came before it is good.
		return io.EOF
	default:
		return err
	}
}

// reset forgets what was read, for a file that begins anew.
func (l *lines) reset(offset int64) {
	l.start, l.end, l.searched, l.offset = 0, 0, 0, offset
}
