package logs

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// fileID tells files apart, whatever their names.
type fileID struct{ dev, ino uint64 }

// fileInfo is what a look at a file says.
type fileInfo struct {
	id      fileID
	size    int64
	regular bool
	// removed says that no folder names it any more.
	removed  bool
	modified time.Time
}

// segment is one file of a log, the live one or a rotated one, and how far it was read.
type segment struct {
	// stamp is empty for the live file.
	stamp      string
	file       *os.File
	id         fileID
	compressed bool
	modified   time.Time
	lines      lines
	// skip is how many whole lines are still to be left out.
	skip int64
	// until is when a rotated file counts as complete; zero while it is not known to
	// be rotated, and for files that were complete when they were opened.
	until time.Time
	// pending is the entry whose line goes on after maxLine bytes.
	pending *Entry
	// bad says that the line at hand is no entry, until its end.
	bad bool
}

// openSegment opens the live file, or a rotated one, compressed or not.
func (d *dir) openSegment(stamp string) (*segment, error) {
	name := d.name
	if stamp != "" {
		name += "." + stamp
	}
	f, err := d.open(name)
	compressed := false
	if stamp != "" && errors.Is(err, fs.ErrNotExist) {
		compressed = true
		f, err = d.open(name + compressedSuffix)
	}
	if err != nil {
		return nil, err
	}
	s, err := newSegment(stamp, f, compressed)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("open log %s: %w", f.Name(), err)
	}
	return s, nil
}

func newSegment(stamp string, f *os.File, compressed bool) (*segment, error) {
	info, err := infoOf(f)
	if err != nil {
		return nil, err
	}
	s := &segment{stamp: stamp, file: f, id: info.id, compressed: compressed, modified: info.modified}
	return s, s.rewind(0)
}

func (s *segment) close() { s.file.Close() }

// rewind reads on from offset, which is zero for a compressed file.
func (s *segment) rewind(offset int64) error {
	if _, err := s.file.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	s.lines.reset(offset)
	s.lines.src, s.pending, s.bad = s.file, nil, false
	if !s.compressed {
		return nil
	}
	z, err := gzip.NewReader(s.file)
	if err != nil {
		return err
	}
	s.lines.src = z
	return nil
}

// headSize is how much of the beginning tells two logs apart. The first line begins with
// a time in nanoseconds.
const headSize = 256

// isSame reports whether other is s, perhaps compressed meanwhile.
func (s *segment) isSame(other *segment) (bool, error) {
	if !other.compressed {
		return s.id == other.id, nil
	}
	mine := make([]byte, headSize)
	n, err := s.file.ReadAt(mine, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	theirs := make([]byte, n)
	m, err := io.ReadFull(other.lines.src, theirs)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	if err := other.rewind(0); err != nil {
		return false, err
	}
	return n > 0 && bytes.Equal(mine[:n], theirs[:m]), nil
}

// next returns the next entry, or io.EOF if there is none so far. Lines that are no
// entries go to bad.
func (s *segment) next(bad func(line []byte, err error)) (Entry, error) {
	for {
		line, whole, err := s.lines.next()
		if err != nil {
			return Entry{}, err
		}
		if e, ok := s.piece(line, whole, bad); ok {
			return e, nil
		}
	}
}

// piece makes an entry of a line, or of a piece of a very long one.
func (s *segment) piece(line []byte, whole bool, bad func([]byte, error)) (Entry, bool) {
	if s.bad {
		s.bad = !whole
		return Entry{}, false
	}
	if s.pending != nil {
		e := *s.pending
		e.Text = line
		e.Partial = e.Partial || !whole
		if whole {
			s.pending = nil
		}
		return e, true
	}
	e, err := Parse(line)
	if err != nil {
		bad(line, err)
		s.bad = !whole
		return Entry{}, false
	}
	if !whole {
		head := e
		s.pending = &head
		e.Partial = true
	}
	return e, true
}

// torn returns the last entry of a file that ends without the end of a line.
func (s *segment) torn(bad func([]byte, error)) (Entry, bool) {
	line := s.lines.rest()
	if len(line) == 0 {
		return Entry{}, false
	}
	e, ok := s.piece(line, true, bad)
	e.Partial = true
	return e, ok
}
