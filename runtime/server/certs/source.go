package certs

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// lookEvery is how often files are looked at while they are in use.
	lookEvery = time.Second
	// maxFile is far more than a bundle of authorities has.
	maxFile = 4 << 20
)

// source is a value that is parsed from files.
type source[T any] struct {
	files []string
	parse func(contents [][]byte) (*T, error)
	log   *slog.Logger
	value atomic.Pointer[T]

	// looking is held by who looks at the files; all others go on with the value.
	looking sync.Mutex
	// looked is when that was done last, read what was in the files, good or bad, and
	// complaint what was said of it. looking guards them.
	looked    time.Time
	read      [][]byte
	complaint string
}

// open reads the files for the first time.
func open[T any](log *slog.Logger, parse func([][]byte) (*T, error), files ...string) (*source[T], error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &source[T]{files: files, parse: parse, log: log, looked: time.Now()}
	var err error
	if s.read, err = readAll(files); err != nil {
		return nil, err
	}
	value, err := parse(s.read)
	if err != nil {
		return nil, err
	}
	s.value.Store(value)
	return s, nil
}

// current returns the value of the last content that was good.
func (s *source[T]) current() *T {
	if s.looking.TryLock() {
		s.lookLocked(time.Now())
		s.looking.Unlock()
	}
	return s.value.Load()
}

// lookLocked reads the files if it is time to. Contents are compared, not times: what
// was half written a moment ago has changed again, whatever its time says.
func (s *source[T]) lookLocked(now time.Time) {
	if now.Sub(s.looked) < lookEvery {
		return
	}
	s.looked = now
	read, err := readAll(s.files)
	if err != nil {
		s.complainLocked(err)
		return
	}
	if slices.EqualFunc(read, s.read, bytes.Equal) {
		return
	}
	s.read = read
	value, err := s.parse(read)
	if err != nil {
		s.complainLocked(err)
		return
	}
	s.complaint = ""
	s.value.Store(value)
	s.log.Info("certificate files have changed and are in force", "files", s.files)
}

// complainLocked logs what is wrong with the files, once.
func (s *source[T]) complainLocked(err error) {
	if err.Error() == s.complaint {
		return
	}
	s.complaint = err.Error()
	s.log.Error("certificate files cannot be used; what they had before stays in force", "files", s.files, "err", err)
}

// readAll returns the contents of files.
func readAll(files []string) ([][]byte, error) {
	contents := make([][]byte, 0, len(files))
	for _, file := range files {
		data, err := readFile(file)
		if err != nil {
			return nil, err
		}
		contents = append(contents, data)
	}
	return contents, nil
}

func readFile(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err // It names the file.
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s has more than %d bytes, that is no file of certificates", file, maxFile)
	}
	return data, nil
}
