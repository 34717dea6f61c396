package conformance

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Stream finds specs that passed in the output of Ginkgo with -v while the suite runs.
// Ginkgo names a spec after its end where several processes run specs, and before its
// beginning where one does, as with those that want the node for themselves. Stream is a
// writer for that output. Failed specs are not looked for: a run that goes on tries them
// again, and a whole one has its report.
type Stream struct {
	// passed is called for each spec, from within Write.
	passed func(Result)
	// specs are the names to find, the shorter of two that begin alike first.
	specs []string
	line  []byte        // What has come of the current line.
	long  bool          // The current line is too long to be one that matters.
	took  time.Duration // Of the spec that has passed, as the last line says; -1 for none.
	begun string        // The spec that has begun, as far as a line said so; "" for none.
}

// NewStream returns a writer that calls passed for each of the specs that passed.
func NewStream(specs []string, passed func(Result)) *Stream {
	return &Stream{specs: specs, passed: passed, took: -1}
}

// lineLimit is more than any spec's name and labels.
const lineLimit = 4 << 10

// Write takes output and never fails.
func (s *Stream) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			s.grow(rest)
			break
		}
		s.grow(rest[:end])
		s.take()
		rest = rest[end+1:]
	}
	return len(p), nil
}

func (s *Stream) grow(part []byte) {
	if s.long = s.long || len(s.line)+len(part) > lineLimit; !s.long {
		s.line = append(s.line, part...)
	}
}

// passedLine is what stands above the name of a spec that passed.
var passedLine = regexp.MustCompile(`^[S•+]*[•+] \[([0-9]{1,6}\.[0-9]{1,9}) seconds\]$`)

// take looks at a whole line.
func (s *Stream) take() {
	line, took := string(s.line), s.took
	if s.long {
		line = ""
	}
	s.line, s.long, s.took = s.line[:0], false, -1
	if match := passedLine.FindStringSubmatch(line); match != nil {
		if seconds, err := strconv.ParseFloat(match[1], 64); err == nil {
			s.took = time.Duration(seconds * float64(time.Second)).Round(100 * time.Millisecond)
		}
		return
	}
	spec, named := s.find(line)
	switch {
	case took >= 0 && named:
		s.end(spec, took)
	case took >= 0 && s.begun != "":
		s.end(s.begun, took)
	case named:
		s.begun = spec
	case line == delimiter: // Between two specs; the one before has failed or skipped itself.
		s.begun = ""
	}
}

// delimiter is a line that Ginkgo writes between the reports of two specs.
const delimiter = "------------------------------"

func (s *Stream) end(spec string, took time.Duration) {
	s.begun = ""
	s.passed(Result{Spec: spec, State: Passed, Time: took})
}

// find returns the spec whose name and labels the line holds.
func (s *Stream) find(line string) (string, bool) {
	best := ""
	for _, spec := range s.specs {
		rest, ok := strings.CutPrefix(line, spec)
		if ok && (rest == "" || strings.HasPrefix(rest, " [")) && len(spec) > len(best) {
			best = spec
		}
	}
	return best, best != ""
}
